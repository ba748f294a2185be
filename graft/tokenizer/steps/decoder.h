// What each token adds to a text, worked out once for the whole vocabulary.

#pragma once

#include <string>
#include <vector>

#include "graft/tokenizer/model/vocabulary.h"
#include "graft/tokenizer/spec/spec.h"

namespace graft::tokenizer {

// By id. Empty for ids without a token. Added tokens stand for their text even where a byte-level
// vocabulary would read its letters as bytes.
std::vector<std::string> decoded_tokens(const Spec& spec, const Vocabulary& vocabulary);

}  // namespace graft::tokenizer
