#include "graft/ops/plugin/pass.h"

#include "graft/base/check.h"

namespace graft::ops {

void PluginThreads::run(std::size_t num_items, const void* body, Call call) {
  pool_.parallel_for(num_items,
                     [&](std::size_t worker, std::size_t item) { call(body, worker, item); });
}

PluginPass::PluginPass(ops::Pass& pass) : pass_(pass), scope_(pass.workspace), threads_(pass.pool) {
  sequences_.reserve(pass.batch.sequences.size());
  for (const SequenceSlice& slice : pass.batch.sequences) {
    sequences_.push_back({.first_row = slice.first_row,
                          .num_tokens = slice.num_tokens,
                          .context_len = slice.context_len});
  }
}

plugin::Phase PluginPass::phase() const {
  return pass_.phase == Phase::Prefill ? plugin::Phase::Prefill : plugin::Phase::Decode;
}

plugin::Rows PluginPass::scratch(std::int64_t rows, std::int64_t cols) {
  return {.data = pass_.workspace.f32({rows, cols}).f32(), .rows = rows, .cols = cols};
}

ops::Pass& PluginPass::of(const plugin::Pass& pass) {
  const auto* ours = dynamic_cast<const PluginPass*>(&pass);
  GRAFT_CHECK(ours != nullptr, "plugins must not implement plugin::Pass");
  return ours->pass_;
}

std::vector<float> PluginWeights::read(std::string_view name,
                                       std::int64_t rows,
                                       std::int64_t cols) {
  const Weight weight = weights_.get(name);
  weight.expect_linear(rows, cols);  // decoding restores the order
  return weight.decode();
}

std::vector<std::vector<float>> PluginWeights::read_experts(std::string_view module,
                                                            std::string_view projection,
                                                            std::int64_t rows,
                                                            std::int64_t cols) {
  std::vector<std::vector<float>> experts;
  for (const Weight& weight : weights_.experts(module, projection)) {
    weight.expect_linear(rows, cols);  // decoding restores the order
    experts.push_back(weight.decode());
  }
  return experts;
}

WeightProvider& PluginWeights::of(plugin::Weights& weights) {
  auto* ours = dynamic_cast<PluginWeights*>(&weights);
  GRAFT_CHECK(ours != nullptr, "plugins must not implement plugin::Weights");
  return ours->weights_;
}

}  // namespace graft::ops
