// Configurations of published models by short names, for benchmarks with random weights.

#pragma once

#include <span>
#include <string>
#include <string_view>

#include "graft/models/config/model_config.h"

namespace graft::models {

struct Shape {
  std::string_view name;     // "llama-1b"
  std::string_view summary;  // "Llama-3.2-1B"
  std::string_view config;   // its config.json
};

std::span<const Shape> shapes();

// By name, or the path of a config.json. Throws Error.
ModelConfig shape_config(const std::string& name_or_path);

}  // namespace graft::models
