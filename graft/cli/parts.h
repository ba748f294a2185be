// Parts of a model as people speak of them, for totals; its type in a word.

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
  NextToken,  // next-token-prediction layers, whole
  Vision,
  Scales,  // of quantized safetensors weights
  Other,
};

std::string_view name(Part part);

// The part that a tensor belongs to, by its Hugging Face or GGUF name.
Part part_of(const models::ModelConfig& config, std::string_view tensor_name);

// The mix of a GGUF file ("Q4_K_M"), else the type of most bytes.
std::string type_text(const formats::WeightSource& source);

}  // namespace graft::cli
