// A GGUF checkpoint as a WeightSource.

#pragma once

#include <filesystem>
#include <memory>

#include "graft/formats/weight_source.h"

namespace graft::formats {

// Any part of a split checkpoint opens all of it. Throws Error when something is malformed or the
// model is of a family that is not supported.
std::unique_ptr<WeightSource> open_gguf(const std::filesystem::path& path);

}  // namespace graft::formats
