// ModelConfig from and to GGUF metadata, in the keys that llama.cpp's converter writes and its
// loader reads. What those keys cannot say stands under "graft.*", which llama.cpp ignores, so that
// our own files come back as they were. What does not come back:
//   - torch_dtype and quantization: the tensors of a GGUF file have types of their own;
//   - vision: GGUF keeps vision towers in another file; LLaVA comes back as its text model, Llama;
//   - biases, qk_norm, tied embeddings, the gate of the shared expert: no key, the tensors tell;
//   - bos, pad and one end token share their keys with the tokenizer, whose values win.

#pragma once

#include <span>
#include <string>
#include <vector>

#include "graft/formats/gguf/metadata.h"
#include "graft/formats/model_config.h"
#include "graft/formats/weight_source.h"

namespace graft::formats {

// Throws Error (subject: `where`) for an architecture that is not supported, for keys that are
// missing or of the wrong kind, and for values that no model can have. With no tensors at all, what
// the tensors would tell is what the family usually has.
ModelConfig read_gguf_config(const GgufMetadata& metadata,
                             std::span<const TensorInfo> tensors,
                             const std::string& where);

void write_gguf_config(const ModelConfig& config, GgufMetadata& metadata);

// rope_freqs.weight, [rotary_dim / 2]: what each pair's frequency is divided by. The only form in
// which GGUF knows llama3 scaling; empty for every other kind.
std::vector<float> rope_freqs(const ModelConfig& config);

}  // namespace graft::formats
