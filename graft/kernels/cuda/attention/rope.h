// Rotary position embedding. Cosines and sines are computed in f64 as on the CPU, once per row for
// all heads.

#pragma once

#include <cstdint>

#include "graft/kernels/cuda/stream.h"

namespace graft::kernels::cuda {

// See RopeParams in graft/plugin_params.h for the meaning.
struct RopeConfig {
  std::int64_t rotary_dim = 0;
  const float* inv_freq = nullptr;  // [rotary_dim / 2]
  float magnitude = 1.0F;
  bool interleaved = false;  // pairs (2i, 2i + 1), else (i, i + rotary_dim / 2)
  bool dynamic = false;      // dynamic NTK scaling, with the three values below
  double theta = 10000.0;
  double factor = 1.0;
  std::int64_t max_position_embeddings = 0;
  // LongRoPE: frequencies of the positions that have the bit long_flag set; null: none.
  const float* long_inv_freq = nullptr;  // [rotary_dim / 2]
  std::int32_t long_flag = 0;
};

// The rotated heads of a row; the first rotary_dim values of each head are rotated.
struct RotatedHeads {
  std::int64_t num_heads = 1;
  std::int64_t head_dim = 0;  // floats from head to head
};

// In place on x[rows, num_heads, head_dim] f32; x.data points to the first head of row 0.
// positions[rows].
void rotate(Rows x,
            const RopeConfig& rotation,
            const std::int32_t* positions,
            std::int64_t rows,
            const RotatedHeads& heads,
            Stream stream);

}  // namespace graft::kernels::cuda
