// DeepSeek-V2 and V3 (also Kimi-K2 and Moonlight): multi-head latent attention, the first layers
// dense, the others with routed and shared experts. V2 scores experts by softmax, V3 by sigmoid
// with a correction bias; that is in the config. Next-n layers of V3 stand after the last layer
// that the config counts: nothing is built for them.

#include "graft/models/family.h"

namespace graft::models {
namespace {

// As KTransformers' modeling files name them; its rules match the YaRN class.
std::string rope_class(const Builder& build) {
  switch (build.config().rope.kind) {
    case formats::RopeKind::Yarn:
      return build.class_name("YarnRotaryEmbedding");
    case formats::RopeKind::Linear:
      return build.class_name("LinearScalingRotaryEmbedding");
    case formats::RopeKind::Dynamic:
      return build.class_name("DynamicNTKScalingRotaryEmbedding");
    case formats::RopeKind::Default:
    case formats::RopeKind::Llama3:
      break;
  }
  return build.class_name("RotaryEmbedding");
}

plan::ModuleSpec mixture(const Builder& build, std::int64_t layer) {
  const formats::MoeConfig& moe = build.config().moe;
  const MoeNames names{.moe_class = build.class_name("MoE"), .router_class = "MoEGate"};
  std::vector<plan::ModuleSpec> shared;
  if (moe.num_shared_experts > 0) {
    // All shared experts are one MLP, as wide as they are together.
    shared.push_back(
        build.mlp(layer_name(layer) + ".mlp.shared_experts", moe.shared_expert_intermediate_size));
  }
  return build.moe(layer, names, std::move(shared));
}

}  // namespace

plan::Blueprint build_deepseek(Builder& build) {
  const std::string rotary = rope_class(build);
  return build.causal_lm([&](std::int64_t layer) {
    const bool is_sparse = build.config().layer_has_experts(layer);
    return build.decoder_layer(layer, build.latent_attention(layer, rotary),
                               is_sparse ? mixture(build, layer) : build.mlp(layer));
  });
}

}  // namespace graft::models
