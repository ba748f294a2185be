// Qwen3: no biases, an RMSNorm on every head of q and k. Qwen3-MoE: routed experts, none shared.

#include "graft/models/family.h"

namespace graft::models {

plan::Blueprint build_qwen3(Builder& build) {
  return build.causal_lm([&](std::int64_t layer) {
    return build.decoder_layer(layer, build.attention(layer), build.mlp(layer));
  });
}

plan::Blueprint build_qwen3_moe(Builder& build) {
  const MoeNames names{.moe_class = build.class_name("SparseMoeBlock"), .router_class = "Linear"};
  return build.causal_lm([&](std::int64_t layer) {
    const bool is_sparse = build.config().layer_has_experts(layer);
    return build.decoder_layer(layer, build.attention(layer),
                               is_sparse ? build.moe(layer, names) : build.mlp(layer));
  });
}

}  // namespace graft::models
