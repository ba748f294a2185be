// Decodes every token of the vocabulary once, when the tokenizer is built.

#pragma once

#include <string>
#include <vector>

#include "graft/tokenizer/model/vocabulary.h"
#include "graft/tokenizer/spec/spec.h"

namespace graft::tokenizer {

// The bytes each token adds to a text, by id; empty for unused ids. Added tokens are plain text,
// also in byte-level vocabularies.
std::vector<std::string> decoded_tokens(const Spec& spec, const Vocabulary& vocabulary);

}  // namespace graft::tokenizer
