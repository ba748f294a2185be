// The whole way from a path to a model that runs: checkpoint, blueprint, plan, operators.

#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "graft/base/parallel.h"
#include "graft/models/checkpoint.h"
#include "graft/models/model.h"
#include "graft/ops/gpu_operators.h"
#include "graft/ops/registry.h"
#include "graft/plan/plan.h"
#include "graft/plan/rules.h"

namespace graft::models {

struct OpenOptions {
  // Text of a rule file. Nothing: the default file of the model's family and of the machine.
  std::string rules = "[]";
  // What messages call it; the paths in its `plugins:` are relative to its folder.
  std::filesystem::path rules_path = "rules";
  std::vector<std::filesystem::path> plugins = {};  // libraries with operators, before the rules'
  plan::Machine machine = {};
  // Those of a machine with so many GPUs; tests bring devices of their own.
  std::function<ops::Registry(int num_gpus)> operators = ops::operators_for;
  std::size_t num_threads = 0;       // 0: one per core
  std::vector<int> processors = {};  // to pin the threads to; empty: not pinned
  LoadOptions load = {};
  std::uint64_t memory = 0;  // bytes that weights and cache may take; 0: what is free
};

// Owns what a Model refers to, and the model. Its parts do not move.
class OpenModel {
 public:
  // Throws Error, with everything that is wrong in the rules.
  explicit OpenModel(const std::filesystem::path& path, const OpenOptions& options = {});

  Model& model() { return *model_; }
  ThreadPool& pool() { return pool_; }
  const Checkpoint& source() const { return *source_; }
  const plan::Blueprint& blueprint() const { return blueprint_; }
  const plan::Plan& plan() const { return planned_.plan; }
  std::uint64_t memory_left(Device device = kCpu) const;  // for the cache, after the weights

 private:
  std::unique_ptr<Checkpoint> source_;
  plan::Blueprint blueprint_;
  ops::Registry registry_;
  plan::RuleFile rules_;
  plan::PlanResult planned_;
  ThreadPool pool_;
  std::uint64_t memory_;
  std::unique_ptr<Model> model_;
};

}  // namespace graft::models
