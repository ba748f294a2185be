// y[rows, out] = x[rows, in] W[out, in]^T + bias, and many such products in one launch, for weights
// of every type, which are decoded where they are used.
//
// gemv      few rows, float arithmetic: reads the weights once for eight rows
// gemv_q8   the same with x rounded to bytes: whole-number dot products for some types; of
//                 several matrices with the same rows in one launch
// gemm     tiles of rows, float arithmetic
// gemm_f16 the same with x and weights rounded to F16, on tensor cores
//
// The order of an output's sum depends on `in` and `out` only (few: not on the rows in company, nor
// on their number; many: neither, but few and many differ in the last bits).

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "graft/kernels/cuda/formats/decode.h"
#include "graft/kernels/cuda/stream.h"

namespace graft::kernels::cuda {

// Products with the matrices of a stack: one (batch = 1), those of the heads of latent attention,
// those of the experts that tokens have chosen.
struct LinearBatch {
  Matrix stack = {};             // `rows` is not looked at
  std::int64_t out = 0;          // rows of one matrix
  std::size_t matrix_bytes = 0;  // from a matrix to the next
  const float* bias = nullptr;   // [out], for all; null: none

  std::int64_t batch = 1;
  // [batch]: the matrix of each product; negative: none, the result is 0. Null: the number of the
  // product is that of its matrix.
  const std::int32_t* matrix_ids = nullptr;

  std::int64_t rows = 1;  // of x in each product
  ConstRows x = {};
  std::int64_t x_batch_stride = 0;  // floats from the rows of a product to those of the next …
  std::int64_t x_share = 1;         // … so many of which have the same rows
  Rows y = {};
  std::int64_t y_batch_stride = 0;

  // A second stack of the same form, for `batch` more products with the same x and matrix numbers
  // whose results follow those of the first: gate and up. Null: none.
  const void* second = nullptr;
  Scales second_scales = {};
};

LinearBatch one_linear(
    const Matrix& weight, const float* bias, ConstRows x, Rows y, std::int64_t rows);

void gemv(const LinearBatch& products, Stream stream);

// Rows of x as bytes with two floats per 32 values: the step d of the bytes, and d times their sum.
struct Q8Rows {
  std::int8_t* quants = nullptr;  // [rows, cols]
  float* scales = nullptr;        // [rows, cols / 32, 2]
};
std::size_t q8_rows_bytes(std::int64_t rows, std::int64_t cols);
Q8Rows q8_rows_at(void* memory, std::int64_t rows, std::int64_t cols);
// cols is a multiple of 32.
void quantize_rows(
    ConstRows x, const Q8Rows& out, std::int64_t rows, std::int64_t cols, Stream stream);

// silu_mul of elementwise.h, rounded at once: the bits are those of silu_mul and quantize_rows.
void silu_mul_q8(ConstRows gate,
                 ConstRows up,
                 const Q8Rows& out,
                 std::int64_t rows,
                 std::int64_t cols,
                 Stream stream);

// Whether gemv_q8 has weights of this type: Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 IQ4_NL and Q4_K Q5_K
// Q6_K.
bool has_linear_q8(DType dtype);
// `q8` holds the rows that products.x describes, stride being `in`: row r of product b is row
// b / x_share * (x_batch_stride / in) + r of them.
void gemv_q8(const LinearBatch& products, const Q8Rows& q8, Stream stream);

// A matrix and where its products with the rows of x go.
struct MatrixResult {
  Matrix weight = {};
  const float* bias = nullptr;  // [out]; null: none
  Rows y = {};                  // [rows, out]
};
inline constexpr std::size_t kMaxGroupedMatrices = 4;
// Up to so many matrices of the same type and `in` with the rows of q8 in one launch: q, k and v.
// The bits are those of single calls.
void gemv_q8_grouped(std::span<const MatrixResult> results,
                     const Q8Rows& q8,
                     std::int64_t rows,
                     Stream stream);

void gemm(const LinearBatch& products, Stream stream);

// Rows of x as F16 times a power of two: 1 where the largest magnitude of the row is between 2^-4
// and 2^14, else what brings it near 2^10, so that neither large nor small rows leave the range of
// F16. Infinities and NaN remain.
struct HalfRows {
  Half* values = nullptr;   // [rows, cols]
  float* scales = nullptr;  // [rows]
  // From a row of a product to its next: 1, or, where the rows of several products alternate, the
  // number of these.
  std::int64_t row_step = 1;
};
std::size_t half_rows_bytes(std::int64_t rows, std::int64_t cols);
HalfRows half_rows_at(void* memory, std::int64_t rows, std::int64_t cols);
void to_half_rows(
    ConstRows x, const HalfRows& out, std::int64_t rows, std::int64_t cols, Stream stream);

// Whether the present GPU and this build have the two functions named _f16.
bool has_linear_f16();
// `half` holds the rows that products.x describes: row r of product b is row
// b / x_share * (x_batch_stride / in) + r * row_step of them.
// Neither products.x.data nor its stride is looked at. Finite weights beyond F16 count as 65504.
void gemm_f16(const LinearBatch& products, const HalfRows& half, Stream stream);

// Rows that use the same matrix, as tiles: see experts.h for who makes them.
struct RowTile {
  std::int32_t matrix;
  std::int32_t first;  // place in row_ids
  std::int32_t count;  // at most kTileRows or kFewTileRows; 0: nothing to do
};
inline constexpr std::int64_t kTileRows = 64;
inline constexpr std::int64_t kFewTileRows = 8;

struct RowTiles {
  const RowTile* tiles = nullptr;
  std::int64_t count = 0;
  const std::int32_t* row_ids = nullptr;
};

// y[row_ids[place]] = x[row_ids[place] / x_share] times the tile's matrix, for each place of each
// tile. Of `products` batch, rows, matrix_ids and the strides of batches are not looked at, but for
// y_batch_stride: where the results of the second stack begin.
void gemv_experts(const LinearBatch& products, const RowTiles& rows, Stream stream);
void gemv_q8_experts(const LinearBatch& products,
                     const RowTiles& rows,
                     const Q8Rows& q8,
                     Stream stream);
void linear_grouped(const LinearBatch& products, const RowTiles& rows, Stream stream);
void linear_grouped_f16(const LinearBatch& products,
                        const RowTiles& rows,
                        const HalfRows& half,
                        Stream stream);

}  // namespace graft::kernels::cuda
