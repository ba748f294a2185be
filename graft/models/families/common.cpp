#include "graft/models/families/common.h"

#include <utility>

namespace graft::models {

plan::Blueprint build_dense(Builder& build) {
  return build.causal_lm([&](std::int64_t layer) {
    return build.decoder_layer(layer, build.attention(layer), build.mlp(layer));
  });
}

plan::Blueprint build_sparse(
    Builder& build,
    const MoeNames& names,
    const std::function<plan::ModuleSpec(std::int64_t layer)>& attention,
    const std::function<std::vector<plan::ModuleSpec>(std::int64_t layer)>& shared_experts) {
  return build.causal_lm([&](std::int64_t layer) {
    if (!build.config().layer_has_experts(layer)) {
      return build.decoder_layer(layer, attention(layer), build.mlp(layer));
    }
    std::vector<plan::ModuleSpec> shared;
    if (shared_experts) shared = shared_experts(layer);
    return build.decoder_layer(layer, attention(layer), build.moe(layer, names, std::move(shared)));
  });
}

}  // namespace graft::models
