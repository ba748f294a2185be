// Opens a model: checkpoint, blueprint, plan, operators, weights.

#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "graft/base/parallel.h"
#include "graft/base/system/mapping_guard.h"
#include "graft/models/model.h"
#include "graft/models/weights/checkpoint.h"
#include "graft/ops/devices/gpu_operators.h"
#include "graft/ops/registry.h"
#include "graft/perf/memory.h"
#include "graft/plan/plan.h"
#include "graft/plan/rules/rules.h"
#include "graft/tensor/device.h"

namespace graft::models {

struct OpenOptions {
  // Text of a rule file. Empty: that of make_rules, else the default file for the model's family
  // and the machine.
  std::string rules = "[]";
  std::function<std::string(const plan::Blueprint& blueprint)> make_rules = {};
  // Name of the rule file in messages; paths in its `plugins:` are relative to its folder.
  std::filesystem::path rules_path = "rules";
  // Plugin libraries, loaded before those of the rule file.
  std::vector<std::filesystem::path> plugins = {};
  plan::Machine machine = {};
  // Type of every KV cache, over the rules: "q8_0"; empty: that of the rules, else the default.
  std::string kv_cache_dtype = {};
  std::filesystem::path mmproj = {};     // open_checkpoint()
  std::filesystem::path tokenizer = {};  // Checkpoint::use_tokenizer(); empty: the checkpoint's
  // Called with the plan before the model is built.
  std::function<void(plan::Plan& plan)> adjust_plan = {};
  // The operators of a machine with `num_gpus` GPUs; tests add their own devices.
  std::function<ops::Registry(int num_gpus)> operators = ops::operators_for;
  std::vector<AdapterSource> adapters = {};
  std::size_t num_threads = 0;  // 0: one per core
  std::vector<int> cpus = {};   // CPUs to pin the threads to; empty: not pinned
  LoadOptions load = {};
  std::uint64_t memory = 0;  // max bytes for weights and KV cache; 0: the free memory
};

// Owns a Model and the objects it refers to. Not movable.
class OpenModel {
 public:
  // Throws one Error that lists all errors of the rules.
  explicit OpenModel(const std::filesystem::path& path, const OpenOptions& options = {});

  Model& model() { return *model_; }
  ThreadPool& pool() { return pool_; }
  const Checkpoint& source() const { return *source_; }
  const plan::Blueprint& blueprint() const { return blueprint_; }
  const plan::Plan& plan() const { return planned_.plan; }
  std::uint64_t memory_left(Device device = kCpu) const;  // bytes left for the KV cache
  // Weights, KV cache and workspace as of now, by device. Not during a pass.
  std::map<Device, perf::MemoryUse> memory_use() const;
  // What happened to a file that the weights are mapped from (graft/base/system/mapping_guard.h).
  std::optional<std::string> damage() const { return damage_of(mapped_files_); }
  // The adapters of the options: the one at index i is that of Model::set_adapter(i).
  const std::vector<AdapterInfo>& adapters() const { return adapters_; }
  // The weights are larger than the memory and are read from the file of packed weights.
  bool is_from_disk() const { return is_from_disk_; }
  bool is_repacked() const { return is_repacked_; }  // LoadOptions::repack

 private:
  std::unique_ptr<Checkpoint> source_;
  plan::Blueprint blueprint_;
  ops::Registry registry_;
  plan::RuleFile rules_;
  plan::PlanResult planned_;
  ThreadPool pool_;
  std::uint64_t memory_;
  std::map<Device, perf::MemoryUse> weights_;  // only weights
  std::vector<std::filesystem::path> mapped_files_;
  bool is_from_disk_ = false;
  bool is_repacked_ = false;
  void load_adapters(const OpenOptions& options);

  std::unique_ptr<Model> model_;
  std::vector<AdapterInfo> adapters_;
};

}  // namespace graft::models
