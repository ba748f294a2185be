// A GGUF model with the file of its vision tower beside it, as llama.cpp ships multimodal models
// ("mmproj").

#pragma once

#include <filesystem>
#include <memory>

#include "graft/formats/weight_source.h"

namespace graft::formats {

// Both files as one source: the tensors of the model, then those of the tower. Throws Error when
// the model is no GGUF file, and when `mmproj` is not the file of a vision tower.
std::unique_ptr<WeightSource> with_mmproj(std::unique_ptr<WeightSource> model,
                                          const std::filesystem::path& mmproj);

// The file of the vision tower that belongs to a GGUF model: the only "mmproj*.gguf" in a folder
// with one model. Empty: there is none.
std::filesystem::path find_mmproj(const std::filesystem::path& model);

}  // namespace graft::formats
