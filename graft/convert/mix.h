// Which type each tensor of a GGUF file gets under a name people know: Q4_K_M, Q8_0, IQ4_XS …
// A mix has a base type and exceptions for the tensors that suffer most from few bits; the choices
// are those of llama.cpp's llama-quantize, so that a name means the same file everywhere.

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

// Every mix, smallest files last.
std::span<const Mix> mixes();
// Ignores case. Throws Error with the known names.
const Mix& find_mix(std::string_view name);

struct TensorShape {
  std::string_view name;            // as GGUF spells it
  std::vector<std::int64_t> shape;  // outermost first
};

struct TypeChoice {
  DType type;
  DType wanted;  // differs from `type` when a row is no multiple of the wanted type's block
};

// For a tensor that is_quantizable(); the others keep their type.
TypeChoice choose_type(const Mix& mix,
                       const models::ModelConfig& config,
                       const TensorShape& tensor);

// Norms, biases, routers and other vectors stay as they are: they are small and sensitive.
bool is_quantizable(const TensorShape& tensor);

}  // namespace graft::convert
