// Llama 2 and 3; Mistral, which adds a sliding window; the text model of LLaVA.

#include "graft/models/family.h"

namespace graft::models {

plan::Blueprint build_llama(Builder& build) {
  return build.causal_lm([&](std::int64_t layer) {
    return build.decoder_layer(layer, build.attention(layer), build.mlp(layer));
  });
}

}  // namespace graft::models
