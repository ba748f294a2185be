// graft pull and graft rm: download and remove models.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>

#include <fmt/format.h>

#include "graft/base/error.h"
#include "graft/base/text/json.h"
#include "graft/base/text/units.h"
#include "graft/cli/commands.h"
#include "graft/cli/hub/download_model.h"
#include "graft/cli/options/rule_options.h"
#include "graft/cli/plan/plan_fit.h"
#include "graft/hub/local_models.h"

namespace graft::cli {
namespace {

hub::ModelRef ref_of(const std::string& name) {
  if (const auto ref = hub::parse_model_ref(name)) return *ref;
  fail(name,
       ": not a model on a hub; expected ORG/REPO[:TYPE], ms:ORG/REPO, ollama:NAME[:TAG] or a URL",
       name.find('/') == std::string::npos ? str("; of Ollama: ollama:", name) : "");
}

std::uint64_t downloaded_bytes(const hub::RemoteModel& model) {
  std::uint64_t present = 0;
  for (const hub::DownloadJob& job : model.jobs) {
    std::error_code error;
    const bool is_complete = std::filesystem::is_regular_file(job.path, error);
    present += is_complete ? job.size : std::min(job.size, hub::partial_bytes(job.path));
  }
  return present;
}

void print_pull_json(const Json& json) {
  fmt::print("{}\n", json.dump(2, ' ', false, Json::error_handler_t::replace));
}

Json files_json(const hub::RemoteModel& model) {
  Json files = Json::array();
  for (const hub::RemoteFile& file : model.chosen.files)
    files.push_back({{"path", file.path}, {"bytes", file.size}});
  return {{"name", hub::to_string(model.ref)},
          {"source", hub::source_name(model.ref.source)},
          {"bytes", model.chosen.bytes()},
          {"downloaded_bytes", downloaded_bytes(model)},
          {"files", files}};
}

void print_files(const hub::RemoteModel& model) {
  fmt::print("{}: {} files, {} from {}, {} of it downloaded\n", hub::to_string(model.ref),
             model.jobs.size(), bytes_text(model.chosen.bytes()),
             hub::source_name(model.ref.source), bytes_text(downloaded_bytes(model)));
  for (const hub::RemoteFile& file : model.chosen.files)
    fmt::print("  {:>10}  {}\n", bytes_text(file.size), file.path);
}

// Of a file, or of all files of a folder; links of Hugging Face's cache are followed.
std::uint64_t bytes_below(const std::filesystem::path& path) {
  std::error_code error;
  if (std::filesystem::is_regular_file(path, error)) return std::filesystem::file_size(path, error);
  std::uint64_t bytes = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(path, error))
    if (entry.is_regular_file(error)) bytes += entry.file_size(error);
  return bytes;
}

// Whether this machine can run it, from the headers of the remote files.
int dry_run(const hub::ModelRef& ref, bool as_json) {
  const hub::Environment env = hub::read_environment();
  const hub::RemoteModel model = hub::look_up(ref, env, {});
  if (!as_json) print_files(model);
  const MachineOptions machine;
  PlanCase to_plan;
  to_plan.machine = machine.figures();
  to_plan.free_machine = machine.free_figures();
  to_plan.source = open_remote_header(model, env);
  to_plan.inputs.machine = machine.devices(to_plan.machine);
  const PlannedCase planned = plan_case(to_plan, RuleSource::Generated, "");
  if (!planned.estimate) fail(hub::to_string(ref), ": no placement on this machine");
  if (as_json) {
    Json json = files_json(model);
    json["fits"] = planned.fits();
    json["prefill_tokens_per_s"] = planned.estimate->prefill.tokens_per_s;
    json["decode_tokens_per_s"] = planned.estimate->decode.tokens_per_s;
    if (!planned.fits()) json["shortage"] = perf::shortage_text(*planned.estimate);
    print_pull_json(json);
    return planned.fits() ? 0 : 1;
  }
  if (planned.fits()) {
    fmt::print("Fits this machine: prefill {:.1f} tok/s, decode {:.1f} tok/s (estimated).\n",
               planned.estimate->prefill.tokens_per_s, planned.estimate->decode.tokens_per_s);
    return 0;
  }
  fmt::print("Does not fit this machine: {}.\n", perf::shortage_text(*planned.estimate));
  if (planned.from_disk) {
    fmt::print("Runs slowly from disk (--repack-cache): decode {:.2f} tok/s (estimated).\n",
               planned.from_disk->decode.tokens_per_s);
  }
  return 1;
}

}  // namespace

void add_pull(Command& app) {
  struct Options {
    std::string name;
    bool dry_run = false;
    bool json = false;
  };
  auto options = std::make_shared<Options>();
  Command* command = app.add_subcommand("pull", "Download a model");
  command->footer(
      "Examples:\n"
      "  graft pull unsloth/Qwen3-0.6B-GGUF:Q4_K_M    Hugging Face; without a type: Q4_K_M\n"
      "  graft pull Qwen/Qwen3-0.6B                   a folder of safetensors\n"
      "  graft pull ms:Qwen/Qwen3-0.6B                ModelScope\n"
      "  graft pull ollama:llama3.2:1b                Ollama's registry\n"
      "  graft pull https://example.org/model.gguf\n"
      "  graft pull --dry-run ORG/REPO                size, and whether this machine can run it\n"
      "\nAn interrupted download continues. -m accepts the same names.\n");
  command->add_option("NAME", options->name, "Model on a hub, or URL")->required();
  command->add_flag("--dry-run", options->dry_run,
                    "Print the size and whether this machine can run it (exit code 1: it cannot), "
                    "from the headers of the files");
  command->add_flag("--json", options->json, "Print name, path and bytes as JSON");
  command->callback([options] {
    const hub::ModelRef ref = ref_of(options->name);
    if (options->dry_run) return exit_with(dry_run(ref, options->json));
    const std::filesystem::path path = download_model(ref);
    if (!options->json) return fmt::print("{}\n", path.string());
    print_pull_json(
        {{"name", hub::to_string(ref)}, {"path", path.string()}, {"bytes", bytes_below(path)}});
  });
}

void add_remove(Command& app) {
  struct Options {
    std::string name;
    bool json = false;
  };
  auto options = std::make_shared<Options>();
  Command* command = app.add_subcommand("rm", "Remove a downloaded model");
  command->footer("Example:\n  graft rm unsloth/Qwen3-0.6B-GGUF:Q4_K_M");
  command->add_option("NAME", options->name, "Name as `graft models` lists it")->required();
  command->add_flag("--json", options->json, "Print name and bytes as JSON");
  command->callback([options] {
    const std::uint64_t bytes = hub::remove_model(options->name, hub::read_environment());
    if (options->json) return print_pull_json({{"removed", options->name}, {"bytes", bytes}});
    fmt::print("removed {}, {}\n", options->name, bytes_text(bytes));
  });
}

}  // namespace graft::cli
