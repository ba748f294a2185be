// Qwen2: Llama with biases on q, k and v. Qwen2-MoE: routed experts and one shared expert whose
// output is weighed by a sigmoid gate of its own.

#include "graft/models/family.h"

namespace graft::models {
namespace {

std::vector<plan::ModuleSpec> shared_expert(const Builder& build, std::int64_t layer) {
  const formats::MoeConfig& moe = build.config().moe;
  const std::string name = layer_name(layer) + ".mlp.shared_expert";
  std::vector<plan::ModuleSpec> shared;
  if (moe.shared_expert_intermediate_size == 0) return shared;
  shared.push_back(build.mlp(name, moe.shared_expert_intermediate_size));
  if (moe.shared_expert_gate) {
    shared.push_back(build.linear(name + "_gate", build.config().hidden_size, 1));
  }
  return shared;
}

}  // namespace

plan::Blueprint build_qwen2(Builder& build) {
  return build.causal_lm([&](std::int64_t layer) {
    return build.decoder_layer(layer, build.attention(layer), build.mlp(layer));
  });
}

plan::Blueprint build_qwen2_moe(Builder& build) {
  const MoeNames names{.moe_class = build.class_name("SparseMoeBlock"), .router_class = "Linear"};
  return build.causal_lm([&](std::int64_t layer) {
    const bool is_sparse = build.config().layer_has_experts(layer);
    return build.decoder_layer(
        layer, build.attention(layer),
        is_sparse ? build.moe(layer, names, shared_expert(build, layer)) : build.mlp(layer));
  });
}

}  // namespace graft::models
