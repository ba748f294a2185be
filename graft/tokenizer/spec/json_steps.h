// Reads the sections of tokenizer.json that are lists of steps: normalizer, pre_tokenizer, decoder.

#pragma once

#include "graft/base/text/json.h"
#include "graft/tokenizer/spec/spec.h"

namespace graft::tokenizer {

// `json` is the value of the section's key, or null. Appends to the spec. Throws Error for steps
// that are not supported.
void read_normalizer(const Json& json, Spec& spec);
void read_pre_tokenizer(const Json& json, Spec& spec);
void read_decoder(const Json& json, Spec& spec);

}  // namespace graft::tokenizer
