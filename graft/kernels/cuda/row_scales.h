// Rows multiplied by a factor each.

#pragma once

#include <cstdint>

#include "graft/kernels/cuda/stream.h"

namespace graft::kernels::cuda {

// y[row] = factors[row] * x[row] for [rows, cols]; then all factors are 1.
void apply_factors(
    ConstRows x, float* factors, Rows y, std::int64_t rows, std::int64_t cols, Stream stream);

// Attention temperature: y[row] *= 1 + scale * log(1 + floor((positions[row] + 1) / floor)).
struct Temperature {
  std::int64_t floor = 1;
  float scale = 0.0F;
};
void scale_by_position(Rows y,
                       const std::int32_t* positions,
                       const Temperature& temperature,
                       std::int64_t rows,
                       std::int64_t cols,
                       Stream stream);

}  // namespace graft::kernels::cuda
