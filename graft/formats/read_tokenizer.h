// Reads the tokenizer of a checkpoint alone.

#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "graft/formats/tokenizer_data.h"

namespace graft::formats {

// `path`: a GGUF file, which may be a vocabulary without a model; a Hugging Face folder, with or
// without config.json; or a tokenizer.json with the files beside it. Throws Error when there is no
// tokenizer. Adds one line to `warnings` for each thing that is not supported.
TokenizerData read_tokenizer(const std::filesystem::path& path, std::vector<std::string>& warnings);
TokenizerData read_tokenizer(const std::filesystem::path& path);

// Whether the path is a GGUF file with a tokenizer and no tensors.
bool is_vocabulary(const std::filesystem::path& path);

}  // namespace graft::formats
