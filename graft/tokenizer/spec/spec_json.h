// Builds a Spec from tokenizer.json. A feature that is not supported throws Error that names it.

#pragma once

#include "graft/formats/tokenizer_data.h"
#include "graft/tokenizer/model/vocabulary.h"
#include "graft/tokenizer/spec/spec.h"

namespace graft::tokenizer {

// `data.tokenizer_json` must not be empty.
Spec spec_from_json(const formats::TokenizerData& data, const Vocabulary& vocabulary);

}  // namespace graft::tokenizer
