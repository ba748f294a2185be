// Mixtral: Mistral with eight experts instead of the MLP. Hugging Face spells the block
// block_sparse_moe and an expert's matrices w1 (gate), w2 (down) and w3 (up).

#include "graft/models/family.h"

namespace graft::models {

plan::Blueprint build_mixtral(Builder& build) {
  const MoeNames names{.block = "block_sparse_moe",
                       .moe_class = build.class_name("SparseMoeBlock"),
                       .router_class = "Linear",
                       .gate_proj = "w1",
                       .up_proj = "w3",
                       .down_proj = "w2"};
  return build.causal_lm([&](std::int64_t layer) {
    return build.decoder_layer(layer, build.attention(layer), build.moe(layer, names));
  });
}

}  // namespace graft::models
