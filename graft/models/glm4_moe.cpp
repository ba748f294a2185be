// GLM-4.5: grouped-query attention that rotates half of each head, with biases and (in the large
// model) norms of q and k; experts chosen and shared as in DeepSeek-V3. Nothing is built for its
// next-n layer.

#include "graft/models/family.h"

namespace graft::models {
namespace {

plan::ModuleSpec mixture(const Builder& build, std::int64_t layer) {
  const formats::MoeConfig& moe = build.config().moe;
  const MoeNames names{.moe_class = build.class_name("MoE"),
                       .router_class = build.class_name("TopkRouter")};
  std::vector<plan::ModuleSpec> shared;
  if (moe.num_shared_experts > 0) {
    shared.push_back(
        build.mlp(layer_name(layer) + ".mlp.shared_experts", moe.shared_expert_intermediate_size));
  }
  return build.moe(layer, names, std::move(shared));
}

}  // namespace

plan::Blueprint build_glm4_moe(Builder& build) {
  return build.causal_lm([&](std::int64_t layer) {
    const bool is_sparse = build.config().layer_has_experts(layer);
    return build.decoder_layer(layer, build.attention(layer),
                               is_sparse ? mixture(build, layer) : build.mlp(layer));
  });
}

}  // namespace graft::models
