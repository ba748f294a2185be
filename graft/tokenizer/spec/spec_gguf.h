// From the words of GGUF to the steps of a tokenizer. They name the pre-tokenizer and leave the
// rest to the reader: a table says what the originals do.

#pragma once

#include "graft/formats/tokenizer_data.h"
#include "graft/tokenizer/model/vocabulary.h"
#include "graft/tokenizer/spec/spec.h"

namespace graft::tokenizer {

Spec spec_from_gguf(const formats::TokenizerData& data, const Vocabulary& vocabulary);

}  // namespace graft::tokenizer
