// Opens only the tokenizer of a checkpoint.

#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "graft/formats/tokenizer_data.h"

namespace graft::formats {

// `path`: a GGUF file, which may be a vocabulary without a model; a Hugging Face folder, with or
// without config.json; or a tokenizer.json, with what stands beside it. Throws Error when there is
// no tokenizer. What was understood only in part is added to `warnings`, one line each.
TokenizerData read_tokenizer(const std::filesystem::path& path, std::vector<std::string>& warnings);
TokenizerData read_tokenizer(const std::filesystem::path& path);

}  // namespace graft::formats
