// ModelConfig from and to GGUF metadata, with the keys that llama.cpp's converter writes and its
// loader reads. Values without a llama.cpp key are stored under "graft.*", which llama.cpp ignores,
// so that a file written here reads back unchanged. Not stored:
//   - torch_dtype and quantization: the tensors of a GGUF file have their own types;
//   - vision: GGUF keeps vision towers in another file; LLaVA reads back as its text model, Llama;
//   - biases, qk_norm, tied embeddings, the gate of the shared expert: inferred from the tensors;
//   - bos, pad and one end token share their keys with the tokenizer, whose values win.
// Differences between families are in their GgufTraits (families/family.h).

#pragma once

#include <span>
#include <string>
#include <vector>

#include "graft/formats/gguf/metadata.h"
#include "graft/formats/weight_source.h"
#include "graft/models/config/model_config.h"

namespace graft::models {

// Throws Error (subject: `where`) for an unsupported architecture, for keys that are missing or of
// the wrong type, and for invalid values. Without tensors, the family's traits are used instead.
ModelConfig read_gguf_config(const formats::GgufMetadata& metadata,
                             std::span<const formats::TensorInfo> tensors,
                             const std::string& where);

void write_gguf_config(const ModelConfig& config, formats::GgufMetadata& metadata);

// rope_freqs.weight, [rotary_dim / 2]: the divisor of each pair's frequency. GGUF's only form of
// llama3 scaling; empty for every other kind.
std::vector<float> rope_freqs(const ModelConfig& config);

// The tensors that hold a part of the RoPE configuration, [rotary_dim / 2] f32 each: rope_freqs,
// or the factors of LongRoPE.
struct RopeTensor {
  std::string name;
  std::vector<float> values;
};
std::vector<RopeTensor> rope_tensors(const ModelConfig& config);

}  // namespace graft::models
