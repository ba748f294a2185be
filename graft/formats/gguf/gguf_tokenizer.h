// TokenizerData from and to the tokenizer.ggml.* keys of GGUF metadata.

#pragma once

#include <string>
#include <vector>

#include "graft/formats/gguf/metadata.h"
#include "graft/formats/tokenizer_data.h"

namespace graft::formats {

// Empty when the file has no tokenizer. Throws Error (subject: `where`) when lists differ in length
// or keys are of the wrong kind; ids outside the vocabulary are left out with a warning.
TokenizerData read_gguf_tokenizer(const GgufMetadata& metadata,
                                  const std::string& where,
                                  std::vector<std::string>& warnings);

// tokenizer_json is not written: the other fields have what llama.cpp reads.
void write_gguf_tokenizer(const TokenizerData& tokenizer, GgufMetadata& metadata);

}  // namespace graft::formats
