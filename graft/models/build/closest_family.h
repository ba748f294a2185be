// The family that resembles an unsupported model most, and what is different, for error messages:
// "closest is qwen3_moe; differs: has keys a, b; lacks keys c; has tensors self_attn.d". Compares
// the keys that a family reads, the keys of its published models, and tensor names.

#pragma once

#include <span>
#include <string>

#include "graft/base/text/json.h"
#include "graft/formats/gguf/gguf_fields.h"
#include "graft/formats/weight_source.h"

namespace graft::models {

// By config.json; `tensors` may be empty.
std::string closest_to_hf(const Json& config, std::span<const formats::TensorInfo> tensors);

// By the metadata and the tensors of a GGUF file.
std::string closest_to_gguf(const formats::GgufFields& gguf);

}  // namespace graft::models
