// The parts of tokenizer.json that are lists of steps: normalizer, pre_tokenizer, decoder.

#pragma once

#include "graft/base/text/json.h"
#include "graft/tokenizer/spec/spec.h"

namespace graft::tokenizer {

// Each takes the value of its key, null included, and appends to the spec. Throws Error.
void read_normalizer(const Json& json, Spec& spec);
void read_pre_tokenizer(const Json& json, Spec& spec);
void read_decoder(const Json& json, Spec& spec);

}  // namespace graft::tokenizer
