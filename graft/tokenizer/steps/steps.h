// Pre-tokenizers that both tokenizer.json and the names of GGUF are made of.

#pragma once

#include "graft/tokenizer/spec/spec.h"

namespace graft::tokenizer {

// GPT-2's: symbols are bytes; `use_regex` splits into words as GPT-2 does.
void add_byte_level(bool add_prefix_space, bool use_regex, Spec& spec);

// Numbers, each whole or digit by digit.
void add_digits(bool one_by_one, Spec& spec);

// Of a decoder: a text begins with a space that its tokens have and it has not.
void strip_one_space(Spec& spec);

}  // namespace graft::tokenizer
