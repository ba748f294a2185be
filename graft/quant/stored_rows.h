// Rows of a weight matrix as a checkpoint stores them.

#pragma once

#include <cstddef>
#include <cstdint>

namespace graft::quant {

// [rows, cols] of a stored type, rows `stride` bytes apart.
struct StoredRows {
  const std::byte* data = nullptr;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t stride = 0;
  const std::byte* next = nullptr;  // rows of the same layout to prefetch; null: none
  // FP8 only: scales[row][col / cols_per_scale], below 2^119. `cols_per_scale` is a multiple of 32,
  // or all columns.
  const float* const* scales = nullptr;
  std::int64_t cols_per_scale = 0;
};

}  // namespace graft::quant
