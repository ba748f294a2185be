// Which of llama.cpp's named pre-tokenizers a tokenizer.json describes.

#pragma once

#include <string>
#include <vector>

#include "graft/base/text/json.h"
#include "graft/formats/pre_tokenizers.h"

namespace graft::formats {

// The steps of "pre_tokenizer" in order, each as one line: "split REGEX", "digits 1" (one by one),
// "digits", "bytelevel regex", "bytelevel", or the type of any other step.
std::vector<std::string> pre_tokenizer_steps(const Json& pre_tokenizer);

// The row that has these steps, of several the one that normalises as the file does; null when
// there is none. Llama 3 and GLM-4 have the same: that they differ only in their special tokens is
// for the caller to see ("llama-bpe" is returned).
const NamedPreTokenizer* find_pre_tokenizer(const std::vector<std::string>& steps, bool has_nfc);

}  // namespace graft::formats
