// The list of all weight formats, and kernel tables built from it. Adding a format here adds it to
// every kernel; nothing else in this folder switches on the dtype.

#pragma once

#include <array>

#include "graft/kernels/cuda/formats/decode.h"
#include "graft/kernels/cuda/formats/formats_iq.cuh"
#include "graft/kernels/cuda/formats/formats_k.cuh"
#include "graft/kernels/cuda/formats/formats_legacy.cuh"
#include "graft/kernels/cuda/formats/formats_plain.cuh"

namespace graft::kernels::cuda {

template <class... Formats>
struct FormatList {};

using AllFormats = FormatList<FormatF32,
                              FormatF16,
                              FormatBF16,
                              FormatF8E4M3,
                              FormatF8E5M2,
                              FormatQ40,
                              FormatQ41,
                              FormatQ50,
                              FormatQ51,
                              FormatQ80,
                              FormatQ81,
                              FormatQ2K,
                              FormatQ3K,
                              FormatQ4K,
                              FormatQ5K,
                              FormatQ6K,
                              FormatQ8K,
                              FormatIq1S,
                              FormatIq1M,
                              FormatIq2Xxs,
                              FormatIq2Xs,
                              FormatIq2S,
                              FormatIq3Xxs,
                              FormatIq3S,
                              FormatIq4Nl,
                              FormatIq4Xs,
                              FormatTq10,
                              FormatTq20,
                              FormatMxfp4,
                              FormatNvfp4,
                              FormatQ10,
                              FormatQ20>;

// Launcher<Format>::kLaunch by dtype; null for dtypes that are not in the list.
template <class Function, template <class> class Launcher, class... Formats>
constexpr std::array<Function, kNumDTypes> table_of(FormatList<Formats...> /*formats*/) {
  std::array<Function, kNumDTypes> table{};
  ((table[static_cast<std::size_t>(Formats::kType)] = Launcher<Formats>::kLaunch), ...);
  return table;
}

// Columns [col, col + 8) of a row; col is a multiple of 8.
template <class Format>
__device__ void decode_run(const std::uint8_t* row,
                           std::int64_t col,
                           std::int64_t cols,
                           float (&out)[kRun]) {
  if constexpr (Format::kPlain) {
    Format::decode(row, col, cols, out);
  } else {
    const std::int64_t block = col / Format::kBlockValues;
    const auto run = static_cast<int>(col % Format::kBlockValues) / kRun;
    Format::decode(row + block * Format::kBlockBytes, run, out);
  }
}

// Columns [col, col + 8) of an f32 row, zeros past its end. vectors: the row is 16-byte aligned.
__device__ inline void load_floats(
    const float* row, std::int64_t col, std::int64_t cols, bool vectors, float (&to)[kRun]) {
  if (vectors && col + kRun <= cols) {
    const float4 a = *reinterpret_cast<const float4*>(row + col);
    const float4 b = *reinterpret_cast<const float4*>(row + col + 4);
    to[0] = a.x;
    to[1] = a.y;
    to[2] = a.z;
    to[3] = a.w;
    to[4] = b.x;
    to[5] = b.y;
    to[6] = b.z;
    to[7] = b.w;
    return;
  }
  GRAFT_UNROLL
  for (int i = 0; i < kRun; ++i)
    to[i] = col + i < cols ? row[col + i] : 0.0F;
}

__device__ inline uint4 half_run(const float (&run)[kRun]) {
  return make_uint4(half_pair(run[0], run[1]), half_pair(run[2], run[3]), half_pair(run[4], run[5]),
                    half_pair(run[6], run[7]));
}

// Stores min(count, 8) values.
__device__ inline void store_run(float* to, std::int64_t count, const float (&values)[kRun]) {
  if (count >= kRun && reinterpret_cast<std::uintptr_t>(to) % 16 == 0) {
    auto* vectors = reinterpret_cast<float4*>(to);
    vectors[0] = make_float4(values[0], values[1], values[2], values[3]);
    vectors[1] = make_float4(values[4], values[5], values[6], values[7]);
    return;
  }
  GRAFT_UNROLL
  for (int i = 0; i < kRun; ++i) {
    if (i < count) to[i] = values[i];
  }
}

__device__ inline void store_run(Half* to, std::int64_t count, const float (&values)[kRun]) {
  if (count >= kRun && reinterpret_cast<std::uintptr_t>(to) % 16 == 0) {
    *reinterpret_cast<uint4*>(to) = half_run(values);
    return;
  }
  GRAFT_UNROLL
  for (int i = 0; i < kRun; ++i) {
    if (i < count) to[i] = to_half(values[i]);
  }
}

// Only FP8 weights have scales in a separate tensor.
template <class Format>
inline constexpr bool kMayHaveScales =
    Format::kType == DType::F8_E4M3 || Format::kType == DType::F8_E5M2;

// Scales of a row of the stack; null: none.
__device__ inline const float* scales_of_row(const Scales& scales, std::int64_t row) {
  if (scales.values == nullptr) return nullptr;
  const std::int64_t rows_of_tiles = (scales.matrix_rows + scales.tile_rows - 1) / scales.tile_rows;
  const std::int64_t tile_row =
      row / scales.matrix_rows * rows_of_tiles + row % scales.matrix_rows / scales.tile_rows;
  return scales.values + tile_row * scales.scale_cols;
}

__device__ inline void scale_run(const Scales& scales,
                                 const float* row_scales,
                                 std::int64_t col,
                                 float (&out)[kRun]) {
  if (row_scales == nullptr) return;
  if (scales.tile_cols % kRun == 0) {
    const float scale = row_scales[col / scales.tile_cols];
    GRAFT_UNROLL
    for (int i = 0; i < kRun; ++i)
      out[i] = multiply(out[i], scale);
    return;
  }
  GRAFT_UNROLL
  for (int i = 0; i < kRun; ++i) {
    // A run may reach past the row's end, but not past the last scale.
    const std::int64_t tile = (col + i) / scales.tile_cols;
    if (tile < scales.scale_cols) out[i] = multiply(out[i], row_scales[tile]);
  }
}

}  // namespace graft::kernels::cuda
