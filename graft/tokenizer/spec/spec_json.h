// From tokenizer.json to the steps of a tokenizer. What it asks for and is not known is an Error
// that names it.

#pragma once

#include "graft/formats/tokenizer_data.h"
#include "graft/tokenizer/model/vocabulary.h"
#include "graft/tokenizer/spec/spec.h"

namespace graft::tokenizer {

// `data.tokenizer_json` is not empty.
Spec spec_from_json(const formats::TokenizerData& data, const Vocabulary& vocabulary);

}  // namespace graft::tokenizer
