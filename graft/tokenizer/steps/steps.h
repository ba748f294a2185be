// Spec steps shared by the readers of tokenizer.json and of GGUF's pre-tokenizer names.

#pragma once

#include "graft/tokenizer/spec/spec.h"

namespace graft::tokenizer {

// GPT-2's byte-level pre-tokenizer; `use_regex` splits into words with GPT-2's pattern.
void add_byte_level(bool add_prefix_space, bool use_regex, Spec& spec);

// Isolates numbers, or with `one_by_one` each digit.
void add_digits(bool one_by_one, Spec& spec);

// Removes one space from the start of a decoded text: the prefix space of the encoder.
void strip_one_space(Spec& spec);

}  // namespace graft::tokenizer
