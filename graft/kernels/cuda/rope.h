// Rotary embedding. The cosines and sines of a pass's positions are computed once, in double
// precision as on the CPU, and used by all layers.

#pragma once

#include <cstddef>
#include <cstdint>

#include "graft/kernels/cuda/stream.h"

namespace graft::cuda {

// See RopeParams in graft/ops/params.h for the meaning.
struct RopeTurns {
  std::int64_t rotary_dim = 0;
  const float* inv_freq = nullptr;  // [rotary_dim / 2], on the device
  float magnitude = 1.0F;
  bool dynamic = false;  // dynamic NTK: the three numbers below
  double theta = 10000.0;
  double factor = 1.0;
  std::int64_t max_position_embeddings = 0;
};

// turns[rows, rotary_dim]: the cosines of a row's angles, then their sines.
std::size_t rope_turns_bytes(std::int64_t rows, std::int64_t rotary_dim);
void rope_turns(const RopeTurns& rope,
                const std::int32_t* positions,
                std::int64_t rows,
                float* turns,
                Stream stream);

// The heads of a row that are rotated: the first rotary_dim values of each.
struct RotatedHeads {
  std::int64_t num_heads = 1;
  std::int64_t head_dim = 0;  // distance between heads
  std::int64_t rotary_dim = 0;
  bool interleaved = false;  // pairs (2i, 2i + 1), else (i, i + rotary_dim / 2)
};

// In place. x.data points to the first head of the first row.
void rotate(
    Rows x, const float* turns, std::int64_t rows, const RotatedHeads& heads, Stream stream);

}  // namespace graft::cuda
