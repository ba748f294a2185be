// Weights whose scales stand in a tensor of their own: value = stored weight * scale. One scale for
// the tensor, one per row (output channel), or one per tile, as FP8 checkpoints store them.

#pragma once

#include <cstdint>
#include <span>

namespace graft::quant {

struct ScaleLayout {
  std::int64_t num_rows = 0;  // of the weight
  std::int64_t row_elems = 0;
  std::int64_t matrix_rows = 0;  // rows of one matrix of a stack; num_rows where there is no stack
  std::int64_t tile_rows = 0;    // weight rows and columns that share a scale; the last tile of
  std::int64_t tile_cols = 0;    // either direction may be cut short
  std::int64_t scale_cols = 0;   // scales per row of tiles

  // Weight [rows, cols] (leading dimensions count as rows). Scales: [], [1] or [1, 1] for the
  // tensor; [rows] or [rows, 1] per row; else [ceil(rows / block), ceil(cols / block)], with the
  // leading dimensions of the weight in front where it has more than two. A shape that fits none
  // throws Error.
  static ScaleLayout fit(std::span<const std::int64_t> weight_shape,
                         std::span<const std::int64_t> scale_shape,
                         std::int64_t block_rows = 128,
                         std::int64_t block_cols = 128);

  // How many scales there are.
  std::int64_t num_scales() const;

  // Multiplies decoded rows [row_begin, row_begin + count) in place. `rows` is the first of them,
  // `scales` all the scales as float.
  void apply(float* rows,
             std::int64_t row_begin,
             std::int64_t count,
             std::span<const float> scales) const;

  // Row of tiles a weight row falls in. Every matrix of a stack begins a tile of its own.
  std::int64_t scale_row(std::int64_t row) const;
};

}  // namespace graft::quant
