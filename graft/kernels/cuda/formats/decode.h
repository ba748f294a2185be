// Dequantizes weights of any dtype to f32 (bit-identical to graft/quant/codec.h) or F16.

#pragma once

#include <cstddef>
#include <cstdint>

#include "graft/kernels/cuda/stream.h"
#include "graft/tensor/dtype.h"

namespace graft::kernels::cuda {

// Scales of FP8 weights, one per tile of tile_rows x tile_cols, as in graft/quant/fp8_scale.h. Null
// values: no scales.
struct Scales {
  const float* values = nullptr;
  std::int64_t matrix_rows = 1;  // rows of one matrix of the stack
  std::int64_t tile_rows = 1;
  std::int64_t tile_cols = 1;
  std::int64_t scale_cols = 1;  // scales per row of tiles
};

// Rows: contiguous rows, stored as in the weight file. Panels: graft/packing/panel_layout.h, of the
// types with has_panels(); only the functions that say so take them.
enum class Layout : std::uint8_t { Rows, Panels };

// `data` is 16-byte aligned.
struct Matrix {
  DType dtype = DType::F32;
  const void* data = nullptr;
  std::int64_t rows = 0;  // of the whole stack
  std::int64_t cols = 0;  // a multiple of the dtype's block size
  Scales scales = {};
  Layout layout = Layout::Rows;

  // Of rows.
  std::size_t row_bytes() const { return bytes_of(dtype, cols); }
};

// Whether the kernels of this folder support weights of this dtype.
bool can_decode(DType dtype);

// out[count, cols] f32 = rows [first_row, first_row + count).
void decode_rows(
    const Matrix& matrix, std::int64_t first_row, std::int64_t count, float* out, Stream stream);
// Round to nearest even; finite weights saturate at ±65504.
void decode_rows_f16(
    const Matrix& matrix, std::int64_t first_row, std::int64_t count, Half* out, Stream stream);

// out[count, cols] f32 = matrix[row_ids[count]]; row ids out of range give NaN.
void look_up_rows(const Matrix& matrix,
                  const std::int32_t* row_ids,
                  std::int64_t count,
                  float* out,
                  Stream stream);

}  // namespace graft::kernels::cuda
