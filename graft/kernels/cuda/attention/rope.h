// Rotary embedding. Cosines and sines are computed in double precision as on the CPU, once for all
// heads of a row.

#pragma once

#include <cstdint>

#include "graft/kernels/cuda/stream.h"

namespace graft::kernels::cuda {

// See RopeParams in graft/ops/params.h for the meaning.
struct Rotation {
  std::int64_t rotary_dim = 0;
  const float* inv_freq = nullptr;  // [rotary_dim / 2], on the device
  float magnitude = 1.0F;
  bool interleaved = false;  // pairs (2i, 2i + 1), else (i, i + rotary_dim / 2)
  bool dynamic = false;      // dynamic NTK: the three numbers below
  double theta = 10000.0;
  double factor = 1.0;
  std::int64_t max_position_embeddings = 0;
};

// The heads of a row that are rotated: the first rotary_dim values of each.
struct RotatedHeads {
  std::int64_t num_heads = 1;
  std::int64_t head_dim = 0;  // distance between heads
};

// In place. x.data points to the first head of the first row, positions[rows].
void rotate(Rows x,
            const Rotation& rotation,
            const std::int32_t* positions,
            std::int64_t rows,
            const RotatedHeads& heads,
            Stream stream);

}  // namespace graft::kernels::cuda
