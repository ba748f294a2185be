// Finds the GGUF name of the pre-tokenizer that a tokenizer.json describes.

#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "graft/base/text/json.h"
#include "graft/formats/pre_tokenizers.h"

namespace graft::formats {

// The steps of "pre_tokenizer" in order, in the notation of NamedPreTokenizer::steps; any other
// step is its type.
std::vector<std::string> pre_tokenizer_steps(const Json& pre_tokenizer);

// The row with these steps; null for none. Of several rows, one whose marker token the vocabulary
// has comes first, then one that normalizes as the file does.
const NamedPreTokenizer* find_pre_tokenizer(
    const std::vector<std::string>& steps,
    bool has_nfc,
    const std::function<bool(std::string_view token)>& has_token);

}  // namespace graft::formats
