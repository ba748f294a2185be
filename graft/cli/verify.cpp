// graft verify: compares a checkpoint with reference logits of another implementation.

#include "graft/models/weights/verify.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include "graft/base/error.h"
#include "graft/base/parallel.h"
#include "graft/base/progress.h"
#include "graft/base/text/json.h"
#include "graft/cli/commands.h"
#include "graft/cli/options/rule_options.h"
#include "graft/cli/text_file.h"
#include "graft/convert/job.h"
#include "graft/models/lora/adapter.h"
#include "graft/models/weights/checkpoint.h"
#include "graft/tensor/device.h"
#include "graft/tensor/gpus.h"

namespace graft::cli {
namespace {

namespace fs = std::filesystem;

struct VerifyCommandOptions {
  std::string folder;
  std::string rules;
  PluginOptions plugins;
  std::string kv_cache_dtype;
  std::string gguf_via;
  std::string lora;    // NAME=PATH[:SCALE]
  std::string device;  // empty: decided by --rules, cpu without them
  std::int64_t chunk = 0;
  double tolerance = models::VerifyOptions{}.tolerance;
  bool json = false;
};

// A temporary GGUF file converted from the folder; the destructor removes it.
class ConvertedFile {
 public:
  ConvertedFile(const std::string& folder, const std::string& type)
      : path_(fs::temp_directory_path() / fmt::format("graft_verify_{}.gguf", ::getpid())) {
    const auto source = models::open_checkpoint(folder);
    const convert::Job job = convert::plan_job(*source, type);
    ThreadPool pool;
    Progress progress("convert", job.input_bytes(), stderr);
    convert::run(job, path_, pool, progress);
  }
  ConvertedFile(const ConvertedFile&) = delete;
  ConvertedFile& operator=(const ConvertedFile&) = delete;
  ~ConvertedFile() {
    std::error_code ignored;
    fs::remove(path_, ignored);
  }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

void print_prompt(const models::PromptReport& prompt, double tolerance) {
  const auto verdict = [&](double error) { return error <= tolerance ? "ok" : "TOO LARGE"; };
  fmt::print("prompt {} ({} tokens)\n", prompt.name, prompt.num_tokens);
  fmt::print("  logits     {:.2e}  {}\n", prompt.logit_error, verdict(prompt.logit_error));
  for (std::size_t i = 0; i < prompt.hidden_errors.size(); ++i) {
    fmt::print("  hidden {:<3} {:.2e}  {}\n", i, prompt.hidden_errors[i],
               verdict(prompt.hidden_errors[i]));
  }
  if (prompt.expected_greedy.empty()) return;
  const auto [got, want] = std::ranges::mismatch(prompt.greedy, prompt.expected_greedy);
  const auto same = got - prompt.greedy.begin();
  fmt::print("  greedy     {} of {} tokens equal  {}\n", same, prompt.expected_greedy.size(),
             want == prompt.expected_greedy.end() ? "ok" : "DIFFERENT");
}

// f32 arithmetic and an f32 KV cache on one GPU, so that differences are errors.
std::string exact_rules(Device gpu) {
  const std::string device = to_string(gpu);
  return fmt::format(
      "- match: {{role: kv_cache}}\n"
      "  replace: {{class: default, kwargs: {{device: \"{0}\", dtype: f32}}}}\n"
      "- match: {{role: linear}}\n"
      "  replace: {{class: default, kwargs: {{device: \"{0}\", precision: f32}}}}\n"
      "- match: {{role: attention}}\n"
      "  replace: {{class: default, kwargs: {{device: \"{0}\", precision: f32}}}}\n"
      "- match: {{role: experts}}\n"
      "  replace: {{class: default, kwargs: {{device: \"{0}\", precision: f32}}}}\n"
      "- match: {{name: \"\"}}\n"
      "  replace: {{class: default, kwargs: {{device: \"{0}\"}}}}\n",
      device);
}

// Without --device and --rules everything runs on the CPU.
void set_placement(const VerifyCommandOptions& options, models::OpenOptions& open) {
  const bool cpu_only =
      options.device == "cpu" || (options.device.empty() && options.rules.empty());
  const GpuList list = cpu_only ? GpuList{} : list_gpus();
  const Device device = options.device.empty() ? kCpu : requested_device(options.device, list);
  open.machine.num_gpus = static_cast<int>(list.gpus.size());
  if (!options.rules.empty()) {
    open.rules = read_text_file(options.rules);
    open.rules_path = options.rules;
  } else if (device != kCpu) {
    open.rules = exact_rules(device);
  }
}

// NaN and infinity are null.
void print_report_json(const std::string& folder, const models::VerifyReport& report) {
  Json prompts = Json::array();
  for (const models::PromptReport& prompt : report.prompts) {
    Json json = {{"name", prompt.name},
                 {"tokens", prompt.num_tokens},
                 {"logit_error", prompt.logit_error},
                 {"hidden_errors", prompt.hidden_errors}};
    if (!prompt.expected_greedy.empty()) {
      const auto [got, want] = std::ranges::mismatch(prompt.greedy, prompt.expected_greedy);
      json["greedy_equal"] = got - prompt.greedy.begin();
      json["greedy_expected"] = prompt.expected_greedy.size();
    }
    prompts.push_back(std::move(json));
  }
  const Json json = {{"folder", folder},
                     {"ok", report.ok()},
                     {"largest_error", report.largest_error()},
                     {"tolerance", report.tolerance},
                     {"prompts", prompts}};
  fmt::print("{}\n", json.dump(2, ' ', false, Json::error_handler_t::replace));
}

int verify(const VerifyCommandOptions& options) {
  models::VerifyOptions with;
  with.chunk = options.chunk;
  with.tolerance = options.tolerance;
  set_placement(options, with.open);
  with.open.plugins = options.plugins.paths();
  with.open.kv_cache_dtype = options.kv_cache_dtype;
  fs::path folder = options.folder;
  if (!options.lora.empty()) {
    with.open.adapters = {models::parse_adapter_source(options.lora)};
    with.adapter = 0;
    folder = with.open.adapters.front().path;
    if (!fs::is_directory(folder)) folder = folder.parent_path();
  }
  const fs::path reference = folder / "reference.safetensors";
  std::unique_ptr<ConvertedFile> converted;
  if (!options.gguf_via.empty())
    converted = std::make_unique<ConvertedFile>(options.folder, options.gguf_via);
  const fs::path model = converted ? converted->path() : fs::path(options.folder);
  const models::VerifyReport report = models::verify(model, reference, with);
  if (options.json) {
    print_report_json(options.folder, report);
    return report.ok() ? 0 : 1;
  }
  for (const models::PromptReport& prompt : report.prompts)
    print_prompt(prompt, report.tolerance);
  fmt::print("{}: {}, largest error {:.2e}, tolerance {:.0e}\n", options.folder,
             report.ok() ? "ok" : "FAILED", report.largest_error(), report.tolerance);
  if (!report.ok() && models::open_checkpoint(model)->config().indexer.num_heads > 0) {
    fmt::print(
        "note: an indexer selects the positions of attention. Of equal scores graft selects the\n"
        "earlier position and PyTorch any: a reference with equal scores differs without an "
        "error.\n");
  }
  return report.ok() ? 0 : 1;
}

}  // namespace

void add_verify(Command& app) {
  auto options = std::make_shared<VerifyCommandOptions>();
  Command* command = app.add_subcommand(
      "verify", "Compare a checkpoint with the reference.safetensors in its folder");
  command->add_option("FOLDER", options->folder, "Checkpoint with a reference.safetensors")
      ->required();
  command->add_option("--gguf-via", options->gguf_via,
                      "Convert to GGUF with this quantization type first");
  command->add_option("--lora", options->lora,
                      "LoRA adapter (NAME=PATH[:SCALE]): compare with the reference beside it");
  command->add_option("--rules", options->rules, "Rule file (default: by model family)");
  options->plugins.add_to(*command);
  add_cache_type_to(*command, options->kv_cache_dtype);
  command->add_option("--chunk", options->chunk, "Prompt tokens per forward pass (default: all)")
      ->check(Range(1, 1 << 20));
  command->add_option(
      "--device", options->device,
      "Run everything on cpu, cuda or cuda:N (default: decided by --rules, else cpu)");
  command->add_option("--tolerance", options->tolerance,
                      "Max error relative to the largest reference value");
  command->add_flag("--json", options->json, "Print the results as JSON");
  command->callback([options] { exit_with(verify(*options)); });
}

}  // namespace graft::cli
