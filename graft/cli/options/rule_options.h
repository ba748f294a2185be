// Options of the commands that plan: plugins, the machine, and a model with its rules.

#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "graft/cli/command.h"
#include "graft/models/weights/checkpoint.h"
#include "graft/ops/registry.h"
#include "graft/perf/estimate.h"
#include "graft/perf/machine.h"
#include "graft/plan/plan.h"

namespace graft::cli {

// --plugin LIB.so, repeatable: libraries with operators for rules.
struct PluginOptions {
  std::vector<std::string> libraries;

  void add_to(Command& command);
  std::vector<std::filesystem::path> paths() const { return {libraries.begin(), libraries.end()}; }
};

// --kv-cache-dtype, for plan::set_cache_type().
void add_cache_type_to(Command& command, std::string& value);

struct MachineOptions {
  int gpus = -1;             // -1: the GPUs of this machine
  std::string vram;          // per GPU, "24G"
  std::string dram;          // "512G"
  std::string file;          // machine.json, or the name of a machine
  double cpu_bandwidth = 0;  // GB/s; 0: that of the figures
  int threads = 0;           // 0: those of the figures

  void add_to(Command& command);      // the devices and their memory
  void add_cpu_to(Command& command);  // the speed of another CPU
  // Those of --machine, else of this machine with the GPUs found in it; then the other options
  // replace what they name.
  perf::MachineFigures figures() const;
  // The same with the memory of this machine that is free now, where no option states a size.
  perf::MachineFigures free_figures() const;
  // What rules may name. Operators must be able to run only on the GPUs of this machine.
  plan::Machine devices(const perf::MachineFigures& machine) const;
  // Another machine than this one: operators missing in this build are not an error.
  bool is_hypothetical() const {
    return gpus >= 0 || !vram.empty() || !dram.empty() || !file.empty();
  }

 private:
  void set_gpus(perf::MachineFigures& machine) const;
};

// Parses "24G", "1.5T", "512M" (powers of 1024) or "1024" into bytes. Throws Error.
std::uint64_t parse_bytes(const std::string& text);

// The size of an option, with a unit: "--vram 24" is an error that suggests 24G. Counts of bytes
// need none from 1 MiB on.
std::uint64_t parse_memory(const std::string& option, const std::string& text);

// What a plan is made from, beside the model.
struct PlanInputs {
  std::string rules = {};       // path; empty: rules_text, else the default file of the family
  std::string rules_text = {};  // generated rules
  PluginOptions plugins = {};
  plan::Machine machine = {};
  std::uint64_t gpu_bytes = 0;      // memory per GPU; 0: unknown
  std::string type = {};            // "Q4_K_M"; empty: the types of the checkpoint
  std::string kv_cache_dtype = {};  // empty: that of the rules
};

// The blueprint of a checkpoint, with the types it would have after `graft quantize` to `type`
// (empty: as it is). Throws Error for an unknown type.
plan::Blueprint blueprint_in(const models::Checkpoint& source, const std::string& type);

// A model with its plan. Not movable, because its members refer to each other.
class PlannedModel {
 public:
  // Throws Error for files that cannot be read and plugins that cannot be loaded; errors inside the
  // rules are in result().findings.
  PlannedModel(std::shared_ptr<const models::Checkpoint> source, const PlanInputs& inputs);
  // `rules` empty: the default file of the family.
  PlannedModel(const std::filesystem::path& model,
               const std::string& rules,
               const PluginOptions& plugins,
               const plan::Machine& machine);
  PlannedModel(const PlannedModel&) = delete;
  PlannedModel& operator=(const PlannedModel&) = delete;
  ~PlannedModel() = default;

  const models::Checkpoint& source() const { return *source_; }
  const plan::Blueprint& blueprint() const { return blueprint_; }
  const plan::PlanResult& result() const { return result_; }
  const plan::RuleFile& rules() const { return rules_; }
  // As the program does before it loads the model. `load`: what the GPUs must have memory for.
  void adjust(const perf::MachineFigures& machine, const perf::Workload& load) {
    if (!result_.ok()) return;
    perf::resolve_gpu_experts(result_.plan, machine, load);
    perf::set_stream_from(result_.plan, machine);
  }

 private:
  std::shared_ptr<const models::Checkpoint> source_;
  plan::Blueprint blueprint_;
  ops::Registry registry_;
  plan::RuleFile rules_;
  plan::PlanResult result_;
};

}  // namespace graft::cli
