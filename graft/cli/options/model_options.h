// Options of the commands that run a model: the model, rules, threads and memory.

#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "graft/api/catalog.h"
#include "graft/api/llm.h"
#include "graft/base/progress.h"
#include "graft/cli/command.h"
#include "graft/cli/options/rule_options.h"
#include "graft/models/lora/adapter.h"
#include "graft/models/weights/checkpoint.h"

namespace graft::cli {

// -m PATH|NAME and --model-dir. A name on a hub (org/repo, ollama:name) is downloaded when it is
// not on this machine.
struct ModelChoice {
  std::string text;  // empty: the bundled model
  std::vector<std::string> folders;
  const Option* flag = nullptr;  // -m, set by add_to()

  // Whether the user gave -m, rather than a setting.
  bool is_given() const { return flag != nullptr && flag->count() > 0; }

  // `positional`: name of a positional argument that also sets the model, e.g. "MODEL".
  Option* add_to(Command& command, const std::string& positional = "");
  static void add_folders_to(Command& command, std::vector<std::string>& folders);

  api::Catalog catalog() const;
  std::filesystem::path path() const;  // throws Error
  // For planning: the model, else the built-in shape of that name. Throws Error that lists both.
  std::unique_ptr<models::Checkpoint> open_or_shape() const;
};

// The path of a model: an existing path, a name of the catalog, or a model on a hub, which is
// downloaded when it is not on this machine. Throws Error.
std::filesystem::path find_model(const std::string& text, const api::Catalog& catalog);

// --lora, and its values. Throws Error.
void add_lora_to(Command& command, std::vector<std::string>& lora);
std::vector<models::AdapterSource> parse_adapters(const std::vector<std::string>& lora);

struct ModelOptions {
  ModelChoice model;
  std::string rules;           // empty: the default of the model family
  std::string device;          // empty: decided by the rules
  std::string kv_cache_dtype;  // empty or "auto": decided by the rules
  std::string mmproj;          // empty: the file beside the model
  std::string tokenizer;       // empty: that of the model
  PluginOptions plugins;
  std::size_t threads = 0;
  std::string cpu_list;  // "0-3,8"; empty: threads are not pinned
  std::string memory;    // "64G"
  bool no_repack = false;
  bool repack_cache = false;
  std::string expert_stats;       // path; empty: not kept
  std::vector<std::string> lora;  // NAME=PATH[:SCALE]

  // `positional`: as for ModelChoice.
  void add_to(Command& command, const std::string& positional = "");
  void add_all_but_model_to(Command& command);
  // The adapter is that of all requests. Throws Error for more than max_adapters.
  api::LlmConfig config(std::size_t max_adapters = 1) const;
  // Loads the model, with a progress bar on standard error when that is a terminal.
  std::unique_ptr<api::LLM> open(api::LlmConfig config) const;
};

// Shows the progress of loading on standard error when that is a terminal. Must outlive the load.
class LoadProgress {
 public:
  explicit LoadProgress(api::LlmConfig& config);
  LoadProgress(const LoadProgress&) = delete;
  LoadProgress& operator=(const LoadProgress&) = delete;
  ~LoadProgress() = default;

  void finish() { progress_.reset(); }  // the model is loaded

 private:
  std::optional<Progress> progress_;
  std::uint64_t shown_ = 0;
};

}  // namespace graft::cli
