// A Hugging Face folder as a WeightSource: config.json, safetensors and the tokenizer's files.

#pragma once

#include <filesystem>
#include <memory>

#include "graft/formats/weight_source.h"

namespace graft::formats {

// Throws Error when config.json or the safetensors files are missing or malformed.
std::unique_ptr<WeightSource> open_hf_folder(const std::filesystem::path& folder);

// One safetensors file, with the config.json and the tokenizer beside it when they exist.
std::unique_ptr<WeightSource> open_safetensors_file(const std::filesystem::path& path);

// A config.json alone, without tensors.
std::unique_ptr<WeightSource> open_hf_config(const std::filesystem::path& path);

}  // namespace graft::formats
