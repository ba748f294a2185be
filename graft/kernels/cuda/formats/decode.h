// Weights of any type to floats, the very ones of graft/quant/codec.h, or to F16.

#pragma once

#include <cstddef>
#include <cstdint>

#include "graft/kernels/cuda/stream.h"
#include "graft/tensor/dtype.h"

namespace graft::kernels::cuda {

// The scales of FP8 weights as graft/quant/fp8_scale.h describes them. No values: none.
struct Scales {
  const float* values = nullptr;
  std::int64_t matrix_rows = 1;  // rows of one matrix of a stack
  std::int64_t tile_rows = 1;
  std::int64_t tile_cols = 1;
  std::int64_t scale_cols = 1;
};

// Rows of one type as a file stores them, one after the other. `data` is a multiple of 16.
struct Matrix {
  DType dtype = DType::F32;
  const void* data = nullptr;
  std::int64_t rows = 0;  // of the whole stack, where there is one
  std::int64_t cols = 0;  // a multiple of the type's block
  Scales scales = {};

  std::size_t row_bytes() const { return bytes_of(dtype, cols); }
};

// Whether weights of this type can be used by the functions of this folder.
bool can_decode(DType dtype);

// out[count, cols] = rows [first_row, first_row + count)
void decode_rows(
    const Matrix& matrix, std::int64_t first_row, std::int64_t count, float* out, Stream stream);
// To nearest even; weights that are finite stay so, at most 65504.
void decode_rows_f16(
    const Matrix& matrix, std::int64_t first_row, std::int64_t count, Half* out, Stream stream);

// out[count, cols] = the rows with these numbers. A number that is no row gives NaN.
void look_up_rows(const Matrix& matrix,
                  const std::int32_t* row_ids,
                  std::int64_t count,
                  float* out,
                  Stream stream);

}  // namespace graft::kernels::cuda
