// A GGUF checkpoint as a WeightSource.

#pragma once

#include <filesystem>
#include <memory>

#include "graft/formats/weight_source.h"

namespace graft::formats {

// Any part of a split checkpoint opens all of it. Throws Error when the file is malformed.
std::unique_ptr<WeightSource> open_gguf(const std::filesystem::path& path);

}  // namespace graft::formats
