// What the commands that plan have in common: a model, rules for it, and a machine.

#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <CLI/App.hpp>

#include "graft/models/checkpoint.h"
#include "graft/ops/registry.h"
#include "graft/perf/machine.h"
#include "graft/plan/plan.h"

namespace graft::cli {

// A whole file; throws Error.
std::string read_text_file(const std::filesystem::path& path);
// The file appears whole or not at all; throws Error.
void write_text_file(const std::filesystem::path& path, const std::string& text);

// --plugin LIB.so, any number of times: libraries with operators that rules may name.
struct PluginOptions {
  std::vector<std::string> libraries;

  void add_to(CLI::App& command);
  std::vector<std::filesystem::path> paths() const { return {libraries.begin(), libraries.end()}; }
};

struct MachineOptions {
  int gpus = -1;     // -1: as many as this machine has
  std::string vram;  // of each GPU, "24G"
  std::string dram;  // "512G"
  std::string file;  // machine.json

  void add_to(CLI::App& command);
  // --machine, else the measured figures, else assumed ones; then what --gpus, --vram, --dram
  // change.
  perf::MachineFigures figures() const;
  // Not the machine we run on: operators that this build lacks are no error.
  bool is_elsewhere() const { return gpus >= 0 || !vram.empty() || !dram.empty() || !file.empty(); }
};

// "24G", "1.5T", "512M", "1024": bytes. Throws Error.
std::uint64_t parse_bytes(const std::string& text);

// A model with rules resolved against it. Parts refer to each other: it does not move.
class PlannedModel {
 public:
  // `rules` empty: the default file for the family. Throws Error for files that cannot be read and
  // plugins that cannot be loaded; what is wrong inside rules is in result().findings.
  PlannedModel(const std::filesystem::path& model,
               const std::string& rules,
               const PluginOptions& plugins,
               const plan::Machine& machine,
               std::uint64_t gpu_bytes = 0);  // memory of each; 0: unknown
  PlannedModel(const PlannedModel&) = delete;
  PlannedModel& operator=(const PlannedModel&) = delete;
  ~PlannedModel() = default;

  const models::Checkpoint& source() const { return *source_; }
  const plan::Blueprint& blueprint() const { return blueprint_; }
  const plan::PlanResult& result() const { return result_; }
  const plan::RuleFile& rules() const { return rules_; }

 private:
  std::unique_ptr<models::Checkpoint> source_;
  plan::Blueprint blueprint_;
  ops::Registry registry_;
  plan::RuleFile rules_;
  plan::PlanResult result_;
};

}  // namespace graft::cli
