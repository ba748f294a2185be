// Builds a Spec from GGUF metadata. GGUF only names the pre-tokenizer; a table in graft/formats
// lists the steps of each name.

#pragma once

#include "graft/formats/tokenizer_data.h"
#include "graft/tokenizer/model/vocabulary.h"
#include "graft/tokenizer/spec/spec.h"

namespace graft::tokenizer {

Spec spec_from_gguf(const formats::TokenizerData& data, const Vocabulary& vocabulary);

}  // namespace graft::tokenizer
