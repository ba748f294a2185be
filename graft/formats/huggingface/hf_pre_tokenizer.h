// Finds the GGUF name of the pre-tokenizer that a tokenizer.json describes.

#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "graft/base/text/json.h"
#include "graft/formats/pre_tokenizers.h"

namespace graft::formats {

// The steps of "pre_tokenizer" in order, in the notation of NamedPreTokenizer::steps; an unknown
// step is represented by its type.
std::vector<std::string> pre_tokenizer_steps(const Json& pre_tokenizer);

// The pre-tokenizer with these steps; null when unknown. Prefers one whose marker token is in the
// vocabulary, then one with the same NFC normalization.
const NamedPreTokenizer* find_pre_tokenizer(
    const std::vector<std::string>& steps,
    bool has_nfc,
    const std::function<bool(std::string_view token)>& has_token);

}  // namespace graft::formats
