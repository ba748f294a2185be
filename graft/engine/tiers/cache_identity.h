// What the keys and values of a model depend on besides the tokens: blocks are exchanged only
// between models of equal identity, so that a loaded block has the bits of a computed one.

#pragma once

#include <cstdint>
#include <string>

#include "graft/formats/weight_source.h"
#include "graft/models/open_model.h"

namespace graft::engine {

// Hash of the tensors' names, types and shapes and of the first and last 64 bytes of their data:
// distinguishes models without reading all weights. Never 0.
std::uint64_t fingerprint_of(const formats::WeightSource& source);

// Weights and configuration, operators and devices, instruction set, and version of graft.
std::string model_identity(const models::OpenModel& open);

}  // namespace graft::engine
