// Configurations of published models by name: to plan without any file, and for benchmarks with
// random weights.

#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "graft/models/config/model_config.h"
#include "graft/models/weights/checkpoint.h"

namespace graft::models {

struct Shape {
  std::string_view name;     // "dsv3"
  std::string_view summary;  // the published name: "DeepSeek-V3"
  std::string_view config;   // its config.json
};

std::span<const Shape> shapes();

// By either name, ignoring case; null when there is none.
const Shape* find_shape(std::string_view name);

// By either name, or the path of a config.json. Throws Error.
ModelConfig shape_config(const std::string& name_or_path);

// A checkpoint without tensors and under its published name, as from the config.json alone.
std::unique_ptr<Checkpoint> open_shape(const Shape& shape);

}  // namespace graft::models
