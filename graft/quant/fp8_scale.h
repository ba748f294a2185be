// Weights with a separate scale tensor, as in FP8 checkpoints: value = stored weight * scale, with
// one scale per tensor, per row (output channel) or per tile.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "graft/tensor/dtype.h"

namespace graft::quant {

// Rows and columns of a tile where the configuration has no block size.
inline constexpr std::int64_t kScaleBlock = 128;

struct ScaleLayout {
  std::int64_t num_rows = 0;     // of the weight; leading dimensions count as rows
  std::int64_t row_elems = 0;    // columns of the weight
  std::int64_t matrix_rows = 0;  // rows of one matrix of a stack; num_rows without a stack
  std::int64_t tile_rows = 0;    // weight rows that share a scale; the last tile may be partial
  std::int64_t tile_cols = 0;    // weight columns that share a scale; the last tile may be partial
  std::int64_t scale_cols = 0;   // scales per row of tiles

  // Derives the layout from the shapes. Weight: [..., rows, cols]. Scales: [], [1] or [1, 1] per
  // tensor; [..., rows] or [..., rows, 1] per row; [..., ceil(rows / block_rows),
  // ceil(cols / block_cols)] per tile. Throws Error for any other scale shape.
  static ScaleLayout fit(std::span<const std::int64_t> weight_shape,
                         std::span<const std::int64_t> scale_shape,
                         std::int64_t block_rows = kScaleBlock,
                         std::int64_t block_cols = kScaleBlock);

  std::int64_t num_scales() const;

  // Multiplies decoded rows [row_begin, row_begin + count) in place. `rows` points at row
  // row_begin; `scales` holds all num_scales() scales.
  void apply(float* rows,
             std::int64_t row_begin,
             std::int64_t count,
             std::span<const float> scales) const;

  // The row of tiles that contains a weight row. Every matrix of a stack starts a new tile.
  std::int64_t scale_row(std::int64_t row) const;
};

// Decodes stored scales. Those of type U8 are E8M0 exponents: byte b is 2^(b - 127), 255 is NaN.
void decode_scales(DType dtype, const std::byte* data, std::span<float> out);

}  // namespace graft::quant
