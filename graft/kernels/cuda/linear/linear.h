// y[rows, out] = x[rows, in] W[out, in]^T + bias, and batches of such products in one launch, for
// weights of every dtype, dequantized where they are used. All of x, y and bias are f32.
//
//    gemv       up to 8 rows per pass over the weights, f32 arithmetic
//    gemv_q8    gemv with x quantized to int8: integer dot products, for some dtypes; also for
//    several
//               matrices with the same rows in one launch
//    gemm       tiles of 64 rows, f32 arithmetic
//    gemm_f16   gemm with x and weights in F16, on tensor cores
//    gemm_experts_mma, gemm_experts_silu_mma
//               tiles of 128 rows with F16 weights on tensor cores, from sm_80 on
//
// The summation order of an output depends only on `in` and `out`: results are batch-invariant
// within gemv and within gemm, but gemv and gemm differ in the last bits.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "graft/kernels/cuda/formats/decode.h"
#include "graft/kernels/cuda/stream.h"

namespace graft::kernels::cuda {

// Products with the matrices of a stack: a single one (batch = 1), one per head (latent attention),
// or one per token-expert pair.
struct LinearBatch {
  Matrix stack = {};             // `rows` is ignored
  std::int64_t out = 0;          // rows of one matrix
  std::size_t matrix_bytes = 0;  // from a matrix to the next
  const float* bias = nullptr;   // [out], shared by all products; null: none

  std::int64_t batch = 1;
  // [batch]: matrix of each product; negative: none, the result is 0. Null: matrix b for product
  // b of the batch.
  const std::int32_t* matrix_ids = nullptr;

  std::int64_t rows = 1;  // of x per product
  ConstRows x = {};
  // Product b reads x from x.data + b / products_per_x * x_batch_stride on.
  std::int64_t x_batch_stride = 0;
  std::int64_t products_per_x = 1;  // consecutive products that share the same rows of x
  Rows y = {};
  std::int64_t y_batch_stride = 0;

  // A second stack of the same shape for `batch` more products with the same x and matrix_ids; its
  // results follow those of the first stack (gate and up). Null: none.
  const void* second = nullptr;
  Scales second_scales = {};
};

LinearBatch one_linear(
    const Matrix& weight, const float* bias, ConstRows x, Rows y, std::int64_t rows);

void gemv(const LinearBatch& products, Stream stream);

// Rows of x quantized to int8, with two floats per group of 32 values: the scale d, and d * sum of
// the group's quants.
struct Q8Rows {
  std::int8_t* quants = nullptr;  // [rows, cols]
  float* scales = nullptr;        // [rows, cols / 32, 2]
};
std::size_t q8_rows_bytes(std::int64_t rows, std::int64_t cols);
Q8Rows q8_rows_at(void* memory, std::int64_t rows, std::int64_t cols);
// x[rows, cols] f32 to int8; cols is a multiple of 32.
void quantize_rows(
    ConstRows x, const Q8Rows& out, std::int64_t rows, std::int64_t cols, Stream stream);

// silu_mul() of elementwise.h, quantized: same bits as silu_mul() followed by quantize_rows().
void silu_mul_q8(ConstRows gate,
                 ConstRows up,
                 const Q8Rows& out,
                 std::int64_t rows,
                 std::int64_t cols,
                 Stream stream);

// Whether gemv_q8 supports weights of this dtype: Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 IQ4_NL Q4_K Q5_K Q6_K.
bool has_gemv_q8(DType dtype);
// q8 holds the rows that products.x describes, with stride `in`: row r of product b is row b /
// products_per_x * (x_batch_stride / in) + r of q8.
void gemv_q8(const LinearBatch& products, const Q8Rows& q8, Stream stream);

// A matrix and the output of its product.
struct MatrixResult {
  Matrix weight = {};
  const float* bias = nullptr;  // [out]; null: none
  Rows y = {};                  // [rows, out]
};
inline constexpr std::size_t kMaxGroupedMatrices = 4;
// Up to kMaxGroupedMatrices matrices of the same dtype and `in` with the same rows in one launch
// (q, k and v). Same bits as single calls.
void gemv_q8_grouped(std::span<const MatrixResult> results,
                     const Q8Rows& q8,
                     std::int64_t rows,
                     Stream stream);

void gemm(const LinearBatch& products, Stream stream);

// F16 rows with row scales: value = scale * F16, scale a power of two. The scale is 1 when the
// row's largest magnitude is in [2^-4, 2^14), else it brings the magnitude near 2^10, so that
// neither large nor small rows leave the range of F16. Infinity and NaN are kept.
struct F16Rows {
  Half* values = nullptr;   // [rows, cols]
  float* scales = nullptr;  // [rows]
  // From a row of a product to its next one: 1, or the number of products whose rows alternate.
  std::int64_t row_stride = 1;
};
std::size_t half_rows_bytes(std::int64_t rows, std::int64_t cols);
F16Rows half_rows_at(void* memory, std::int64_t rows, std::int64_t cols);
void to_half_rows(
    ConstRows x, const F16Rows& out, std::int64_t rows, std::int64_t cols, Stream stream);
// Only the rows row_ids[rows], each to the same row of `out`; row_ids null: rows [0, rows).
void to_half_rows_of(ConstRows x,
                     const std::int32_t* row_ids,
                     const F16Rows& out,
                     std::int64_t rows,
                     std::int64_t cols,
                     Stream stream);

// Whether the current device and this build have gemm_f16 and gemm_experts_f16.
bool has_gemm_f16();
// f16 holds the rows that products.x describes: row r of product b is row b / products_per_x *
// (x_batch_stride / in) + r * row_stride. products.x is not read. Finite weights beyond the range
// of F16 become ±65504.
void gemm_f16(const LinearBatch& products, const F16Rows& f16, Stream stream);

// Rows that are multiplied with the same matrix; group_pairs() in experts.h makes them.
struct RowTile {
  std::int32_t matrix;
  std::int32_t first;  // index into row_ids
  std::int32_t count;  // at most kGemmTileRows, kGemvTileRows or kMmaTileRows; 0: no work
};
inline constexpr std::int64_t kGemmTileRows = 64;
inline constexpr std::int64_t kMmaTileRows = 128;
inline constexpr std::int64_t kGemvTileRows = 8;

struct RowTiles {
  const RowTile* tiles = nullptr;
  std::int64_t count = 0;
  const std::int32_t* row_ids = nullptr;
};

// y[row_ids[i]] = x[row_ids[i] / products_per_x] times the tile's matrix, for each i of each tile.
// Of `products`, batch, rows, matrix_ids and x_batch_stride are ignored; y_batch_stride is the
// offset of the second stack's results.
void gemv_experts(const LinearBatch& products, const RowTiles& rows, Stream stream);
void gemv_q8_experts(const LinearBatch& products,
                     const RowTiles& rows,
                     const Q8Rows& q8,
                     Stream stream);
void gemm_experts(const LinearBatch& products, const RowTiles& rows, Stream stream);
void gemm_experts_f16(const LinearBatch& products,
                      const RowTiles& rows,
                      const F16Rows& f16,
                      Stream stream);

// Whether the current device and this build have the two functions below.
bool has_gemm_mma();
// Whether they support F16 weights with this number of columns: multiples of 8.
bool can_use_gemm_mma(std::int64_t in);
// gemm_experts_f16 for F16 weights without bias and tiles of up to kMmaTileRows rows. The summation
// order of an output depends only on `in`.
void gemm_experts_mma(const LinearBatch& products,
                      const RowTiles& rows,
                      const F16Rows& f16,
                      Stream stream);
// y = silu(gate) * up, with `stack` the gate and `second` the up projection: same bits as
// gemm_experts_mma for each of them, then silu_mul() of elementwise.h.
void gemm_experts_silu_mma(const LinearBatch& products,
                           const RowTiles& rows,
                           const F16Rows& f16,
                           Stream stream);

}  // namespace graft::kernels::cuda
