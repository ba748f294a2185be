#include "graft/cli/options/model_options.h"

#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "graft/base/error.h"
#include "graft/base/system/cpus.h"
#include "graft/cli/hub/download_model.h"
#include "graft/cli/options/settings.h"
#include "graft/cli/terminal.h"
#include "graft/hub/local_models.h"
#include "graft/models/build/shapes.h"
#include "graft/models/lora/adapter.h"
#include "graft/ops/lora.h"

namespace graft::cli {
namespace {

// A plan needs no weights: of a folder without weights, its config.json.
std::filesystem::path config_or_model(const std::filesystem::path& path) {
  std::filesystem::path config = path / "config.json";
  const bool has_weights = std::filesystem::exists(path / "model.safetensors") ||
                           std::filesystem::exists(path / "model.safetensors.index.json");
  if (!std::filesystem::exists(config) || has_weights) return path;
  if (std::filesystem::exists(path / "pytorch_model.bin") ||
      std::filesystem::exists(path / "pytorch_model.bin.index.json"))
    warn(str(path.string(), ": graft does not read pytorch_model.bin, only safetensors and GGUF"));
  return config;
}

std::vector<api::ModelEntry> downloaded_models() {
  std::vector<api::ModelEntry> entries;
  for (hub::LocalModel& model : hub::find_local_models(hub::read_environment())) {
    entries.push_back({.name = std::move(model.name),
                       .path = std::move(model.path),
                       .bytes = model.bytes,
                       .origin = std::move(model.origin)});
  }
  return entries;
}

// For a plan, the headers of a remote model are enough. Null: not a model on a hub, or it is on
// this machine.
std::unique_ptr<models::Checkpoint> open_remote(const std::string& text,
                                                const api::Catalog& catalog) {
  const auto ref = hub::parse_model_ref(text);
  if (!ref || catalog.find_name(text)) return nullptr;
  const hub::Environment env = hub::read_environment();
  if (hub::find_pulled(*ref, env)) return nullptr;
  return open_remote_header(hub::look_up(*ref, env, {}), env);
}

}  // namespace

Option* ModelChoice::add_to(Command& command, const std::string& positional) {
  add_folders_to(command, folders);
  Option* option =
      command
          .add_option(
              "-m,--model" + (positional.empty() ? "" : "," + positional), text,
              "GGUF file, Hugging Face folder, model name, or a model to download such as ORG/REPO "
              "or ollama:NAME (default: the bundled model)")
          ->option_text("PATH|NAME");
  flag = option;
  return option;
}

void ModelChoice::add_folders_to(Command& command, std::vector<std::string>& folders) {
  command.add_option("--model-dir", folders, "Folders to search for models by name")
      ->option_text("DIR,...")
      ->delimiter(',')
      ->allow_extra_args(false);
}

api::Catalog ModelChoice::catalog() const {
  std::vector<std::filesystem::path> paths(folders.begin(), folders.end());
  if (paths.empty()) {
    const std::filesystem::path data = user_folder("XDG_DATA_HOME", ".local/share");
    if (!data.empty()) paths.push_back(data / "models");
  }
  // Explicit folders are all that the user wants to see.
  if (!folders.empty()) return api::Catalog(std::move(paths));
  return api::Catalog(std::move(paths), downloaded_models);
}

std::filesystem::path find_model(const std::string& text, const api::Catalog& catalog) {
  std::error_code error;
  if (text.empty() || std::filesystem::exists(text, error)) return catalog.find(text);
  if (const auto path = catalog.find_name(text)) return *path;
  if (const auto ref = hub::parse_model_ref(text)) return local_or_downloaded(*ref);
  try {
    return catalog.find(text);
  } catch (const Error& failure) {
    const bool is_path = text.find_first_of("/\\ ") != std::string::npos ||
                         text.ends_with(".gguf") || text.ends_with(".safetensors");
    if (is_path) throw;
    fail(failure.what(), "; -m ollama:", text, " and -m ORG/REPO download models");
  }
}

std::filesystem::path ModelChoice::path() const {
  return find_model(text, catalog());
}

std::unique_ptr<models::Checkpoint> ModelChoice::open_or_shape() const {
  if (auto remote = open_remote(text, catalog())) return remote;
  std::filesystem::path found;
  try {
    found = path();
  } catch (const Error& error) {
    // A folder that is not a model stays an error: a path wins over a shape.
    std::error_code ignored;
    if (std::filesystem::exists(text, ignored)) throw;
    if (const models::Shape* shape = models::find_shape(text)) return models::open_shape(*shape);
    std::string shapes;
    for (const models::Shape& shape : models::shapes())
      shapes += str(shapes.empty() ? "" : ", ", shape.summary);
    fail(error.what(), "; built-in shapes: ", shapes);
  }
  return models::open_checkpoint(config_or_model(found));
}

void add_lora_to(Command& command, std::vector<std::string>& lora) {
  command
      .add_option("--lora", lora,
                  "LoRA adapter: a PEFT folder or a GGUF file, with a name; repeatable for serve")
      ->option_text("NAME=PATH[:SCALE]")
      ->allow_extra_args(false);
}

std::vector<models::AdapterSource> parse_adapters(const std::vector<std::string>& lora) {
  std::vector<models::AdapterSource> adapters;
  adapters.reserve(lora.size());
  for (const std::string& text : lora)
    adapters.push_back(models::parse_adapter_source(text));
  return adapters;
}

void ModelOptions::add_to(Command& command, const std::string& positional) {
  model.add_to(command, positional);
  add_all_but_model_to(command);
}

void ModelOptions::add_all_but_model_to(Command& command) {
  command.add_option("--rules", rules, "Rule file (default: chosen for the model and the machine)")
      ->option_text("FILE");
  command
      .add_option("--device", device,
                  "Run everything on cpu, cuda or cuda:N (default: decided by the rules)")
      ->option_text("NAME");
  add_cache_type_to(command, kv_cache_dtype);
  command
      .add_option("--mmproj", mmproj,
                  "Vision tower of a GGUF model (default: the mmproj*.gguf beside it)")
      ->option_text("FILE");
  command
      .add_option("--tokenizer", tokenizer,
                  "Folder with the tokenizer, chat template and generation_config.json to use "
                  "(default: those of the model)")
      ->option_text("PATH");
  plugins.add_to(command);
  command.add_option("-t,--threads", threads, "Number of threads (default: one per core)")
      ->check(Range(1, 4096))
      ->option_text("N");
  command.add_option("--cpu-list", cpu_list, "Pin the threads to these logical CPUs, e.g. 0-3,8")
      ->option_text("LIST");
  command
      .add_option("--memory", memory,
                  "Max memory for weights and KV cache (default: the free memory)")
      ->option_text("SIZE");
  add_lora_to(command, lora);
  command.add_flag("--no-repack", no_repack,
                   "Skip repacking: instant load and exact arithmetic, slower");
  command.add_flag("--repack-cache", repack_cache,
                   "Keep repacked weights in a file next to the model: faster loading, and models "
                   "larger than memory run from it");
  command
      .add_option("--expert-stats", expert_stats,
                  "File that keeps how often each expert is used, so that a restart begins with "
                  "the most used ones in GPU memory")
      ->option_text("FILE");
}

api::LlmConfig ModelOptions::config(std::size_t max_adapters) const {
  api::LlmConfig config;
  config.rules = rules;
  config.device = device;
  config.kv_cache_dtype = kv_cache_dtype;
  config.mmproj = mmproj;
  config.tokenizer = tokenizer;
  config.plugins = plugins.paths();
  config.num_threads = threads;
  if (!cpu_list.empty()) config.cpus = parse_cpu_list(cpu_list);
  if (!memory.empty()) config.memory = parse_bytes(memory);
  config.repack = !no_repack;
  config.repack_cache = repack_cache;
  config.expert_stats = expert_stats;
  config.adapters = parse_adapters(lora);
  if (config.adapters.size() > max_adapters) {
    fail("--lora: ", config.adapters.size(),
         " adapters; only graft serve takes more than one, up to ", ops::kMaxAdapters);
  }
  if (!config.adapters.empty()) config.default_adapter = config.adapters.front().name;
  config.on_warning = [](const std::string& line) { warn(line); };
  config.on_placement = [](const std::string& summary) {
    fmt::print(stderr, "placement: {}; `graft plan --auto` prints the rules\n", summary);
  };
  return config;
}

LoadProgress::LoadProgress(api::LlmConfig& config) {
  if (!is_terminal(stderr)) return;
  config.on_load = [this](std::uint64_t done, std::uint64_t total) {
    if (!progress_) progress_.emplace("loading", total, stderr);
    progress_->advance(done - shown_, "");
    shown_ = done;
  };
  config.on_warning = [this](const std::string& line) {
    if (progress_) progress_->finish();
    warn(line);
  };
}

std::unique_ptr<api::LLM> ModelOptions::open(api::LlmConfig config) const {
  LoadProgress progress(config);
  return std::make_unique<api::LLM>(model.path(), config);
}

}  // namespace graft::cli
