// Builds a Spec from GGUF metadata. GGUF only names the pre-tokenizer; a table in graft/formats
// lists the steps of each name.

#pragma once

#include <span>

#include "graft/formats/pre_tokenizers.h"
#include "graft/formats/tokenizer_data.h"
#include "graft/tokenizer/model/vocabulary.h"
#include "graft/tokenizer/spec/spec.h"

namespace graft::tokenizer {

// `names` are the pre-tokenizer names of the model families.
Spec spec_from_gguf(const formats::TokenizerData& data,
                    const Vocabulary& vocabulary,
                    std::span<const formats::PreTokenizerName> names);

}  // namespace graft::tokenizer
