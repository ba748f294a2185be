// Implements the pass, threads and weights of the plugin interface (graft/plugin.h).

#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "graft/ops/pass.h"
#include "graft/ops/weight.h"
#include "graft/plugin.h"

namespace graft::ops {

class PluginThreads final : public plugin::Threads {
 public:
  explicit PluginThreads(ThreadPool& pool) : pool_(pool) {}

  std::size_t size() const override { return pool_.num_threads(); }

 private:
  void run(std::size_t num_items, const void* body, Call call) override;

  ThreadPool& pool_;
};

// Lives for one forward() of a plugin's operator; the destructor frees its scratch memory.
class PluginPass final : public plugin::Pass {
 public:
  explicit PluginPass(ops::Pass& pass);

  plugin::Phase phase() const override;
  std::span<const std::int32_t> token_ids() const override { return pass_.batch.token_ids; }
  std::span<const std::int32_t> positions() const override { return pass_.batch.positions; }
  std::span<const plugin::Sequence> sequences() const override { return sequences_; }
  plugin::Threads& threads() override { return threads_; }
  plugin::Rows scratch(std::int64_t rows, std::int64_t cols) override;

  // The ops::Pass behind a plugin::Pass that a plugin passes to a child.
  static ops::Pass& of(const plugin::Pass& pass);

 private:
  ops::Pass& pass_;
  Workspace::Scope scope_;
  PluginThreads threads_;
  std::vector<plugin::Sequence> sequences_;
};

class PluginWeights final : public plugin::Weights {
 public:
  explicit PluginWeights(WeightProvider& weights) : weights_(weights) {}

  bool contains(std::string_view name) override { return weights_.contains(name); }
  std::vector<float> read(std::string_view name, std::int64_t rows, std::int64_t cols) override;
  std::vector<std::vector<float>> read_experts(std::string_view module,
                                               std::string_view projection,
                                               std::int64_t rows,
                                               std::int64_t cols) override;

  // The WeightProvider behind a plugin::Weights that a plugin passes to an operator it wraps.
  static WeightProvider& of(plugin::Weights& weights);

 private:
  WeightProvider& weights_;
};

}  // namespace graft::ops
