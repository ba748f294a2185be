// Quantization mixes: the type of each tensor of a GGUF file named Q4_K_M, Q8_0, IQ4_XS …
// A mix has a base type and exceptions for the tensors most sensitive to quantization. The choices
// are those of llama.cpp's llama-quantize, so that a name means the same types in both.

#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "graft/models/config/model_config.h"
#include "graft/tensor/dtype.h"

namespace graft::convert {

struct Mix {
  std::string_view name;
  DType base;
  int file_type;  // general.file_type
  std::string_view summary;
};

// All mixes, in the order `graft quantize` lists them: most bits first.
std::span<const Mix> mixes();
// Case-insensitive. Throws Error that lists the known names.
const Mix& find_mix(std::string_view name);

struct TensorShape {
  std::string_view name;            // GGUF name
  std::vector<std::int64_t> shape;  // outermost dimension first
};

struct TypeChoice {
  DType type;
  DType wanted;  // differs from `type` when a row is not a multiple of the wanted type's block
};

// Only for tensors that are is_quantizable(); the others keep their type.
TypeChoice choose_type(const Mix& mix,
                       const models::ModelConfig& config,
                       const TensorShape& tensor);

// False for norms, biases, routers and other vectors: they are small, and sensitive to rounding.
bool is_quantizable(const TensorShape& tensor);

}  // namespace graft::convert
