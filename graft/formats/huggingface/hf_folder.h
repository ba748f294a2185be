// A Hugging Face folder as a WeightSource: config.json, safetensors and the tokenizer's files.

#pragma once

#include <filesystem>
#include <memory>

#include "graft/formats/weight_source.h"

namespace graft::formats {

// Throws Error when there is no config.json, no safetensors, or something in them is malformed.
std::unique_ptr<WeightSource> open_hf_folder(const std::filesystem::path& folder);

// One safetensors file; the config.json and the tokenizer beside it, if there are any. Without a
// config.json the config is that of an empty model: only the tensors can be looked at.
std::unique_ptr<WeightSource> open_safetensors_file(const std::filesystem::path& path);

// A config.json alone: what the model would be, without tensors.
std::unique_ptr<WeightSource> open_hf_config(const std::filesystem::path& path);

}  // namespace graft::formats
