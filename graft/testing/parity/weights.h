// Random weights of every dtype; equal names give equal values.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graft/ops/weight.h"
#include "graft/tensor/dtype.h"

namespace graft::ops::testing {

// Every type that weights are stored in: floating-point types and all block types.
const std::vector<DType>& weight_types();

// Values up to about 0.1 (0.5 for types without an encoder, whose blocks are random bytes). F8_E4M3
// has scales of 128 x 128 tiles, as checkpoints do; F8_E5M2 has none, so that both are tested.
Weight random_matrix(const std::string& name,
                     std::int64_t rows,
                     std::int64_t cols,
                     DType dtype = DType::F32);
// F32 values in [center - size, center + size].
Weight random_vector(const std::string& name, std::int64_t count, float size, float center);
// The same values in F32, without scales.
Weight decoded(const Weight& weight);

}  // namespace graft::ops::testing
