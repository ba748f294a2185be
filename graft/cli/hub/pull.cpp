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
       ": not a model on a hub; expected ORG/REPO[:TYPE], ms:ORG/REPO, ollama:NAME[:TAG] or a URL");
}

void print_files(const hub::RemoteModel& model) {
  std::uint64_t present = 0;
  for (const hub::DownloadJob& job : model.jobs) {
    std::error_code error;
    const bool is_complete = std::filesystem::is_regular_file(job.path, error);
    present += is_complete ? job.size : std::min(job.size, hub::partial_bytes(job.path));
  }
  fmt::print("{}: {} files, {} from {}, {} of it downloaded\n", hub::to_string(model.ref),
             model.jobs.size(), bytes_text(model.chosen.bytes()),
             hub::source_name(model.ref.source), bytes_text(present));
  for (const hub::RemoteFile& file : model.chosen.files)
    fmt::print("  {:>10}  {}\n", bytes_text(file.size), file.path);
}

// Whether this machine can run it, from the headers of the remote files.
int dry_run(const hub::ModelRef& ref) {
  const hub::Environment env = hub::read_environment();
  const hub::RemoteModel model = hub::look_up(ref, env, {});
  print_files(model);
  const MachineOptions machine;
  PlanCase to_plan;
  to_plan.machine = machine.figures();
  to_plan.free_machine = machine.free_figures();
  to_plan.source = open_remote_header(model, env);
  to_plan.inputs.machine = machine.devices(to_plan.machine);
  const PlannedCase planned = plan_case(to_plan, RuleSource::Generated, "");
  if (!planned.estimate) fail(hub::to_string(ref), ": no placement on this machine");
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
  command->callback([options] {
    const hub::ModelRef ref = ref_of(options->name);
    if (options->dry_run) return exit_with(dry_run(ref));
    fmt::print("{}\n", download_model(ref).string());
  });
}

void add_remove(Command& app) {
  auto name = std::make_shared<std::string>();
  Command* command = app.add_subcommand("rm", "Remove a downloaded model");
  command->footer("Example:\n  graft rm unsloth/Qwen3-0.6B-GGUF:Q4_K_M");
  command->add_option("NAME", *name, "Name as `graft models` lists it")->required();
  command->callback([name] {
    const std::uint64_t bytes = hub::remove_model(*name, hub::read_environment());
    fmt::print("removed {}, {}\n", *name, bytes_text(bytes));
  });
}

}  // namespace graft::cli
