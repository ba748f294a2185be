// Which of llama.cpp's named pre-tokenizers a tokenizer.json describes.

#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graft/base/json.h"

namespace graft::formats {

// The steps of "pre_tokenizer" in order, each as one line: "split REGEX", "digits 1" (one by one),
// "digits", "bytelevel regex", "bytelevel", or the type of any other step.
std::vector<std::string> pre_tokenizer_steps(const Json& pre_tokenizer);

// The name of the row that has these steps. Llama 3 and GLM-4 have the same: that they differ only
// in their special tokens is for the caller to see ("llama-bpe" is returned).
std::optional<std::string_view> find_pre_tokenizer(const std::vector<std::string>& steps);

}  // namespace graft::formats
