// Classifies tensors by the part of the model they belong to, for totals, and names the
// quantization type of a checkpoint.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "graft/formats/weight_source.h"
#include "graft/models/config/model_config.h"

namespace graft::cli {

enum class Part : std::uint8_t {
  Embedding,
  Attention,
  DenseMlp,
  RoutedExperts,
  SharedExperts,
  Routers,
  Norms,
  Head,
  NextToken,  // multi-token prediction (MTP) layers
  Vision,
  Scales,  // of quantized safetensors weights
  Other,
};

std::string_view name(Part part);

// By the Hugging Face or GGUF name of the tensor.
Part part_of(const models::ModelConfig& config, std::string_view tensor_name);

// The file type of a GGUF file ("Q4_K_M"), else the tensor type with the most bytes.
std::string type_text(const formats::WeightSource& source);

}  // namespace graft::cli
