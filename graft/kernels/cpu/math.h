// Float arithmetic of the operators, compiled once per instruction set. Every sum runs in an order
// fixed by the length of one row: 16 lanes, lane i taking the values i, i + 16, …, then a fixed
// tree over the lanes. So the bits depend on neither the instruction set nor the other rows. Only
// matrix products fuse multiplication and addition where they can: see product-inl.h.

#pragma once

#include <cstddef>
#include <cstdint>

namespace graft::kernels::cpu {

// `rows` rows of floats, `stride` floats apart. Needs no alignment.
struct RowsF32 {
  const float* data = nullptr;
  std::int64_t rows = 0;
  std::int64_t stride = 0;
};

// Rows that lie anywhere.
struct RowPointers {
  const float* const* data = nullptr;
  std::int64_t rows = 0;
};

// Rows of some stored type, `stride` bytes apart.
struct StoredRows {
  const std::byte* data = nullptr;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t stride = 0;
  const std::byte* next = nullptr;  // rows in the same form that will be wanted soon; null: none
  // Of FP8 matrices: the scales of each row, one per `scaled_alike` columns (a multiple of 32, or
  // all), below 2^119.
  const float* const* scales = nullptr;
  std::int64_t scaled_alike = 0;
};

// c[m, n] = factor[m] c[m, n] + the sum over k of a[m, k] b[k, n], k ascending: one chain of fused
// multiplications and additions per value (of separate ones at the baseline).
struct Product {
  const float* a = nullptr;  // a[m, k] is at m * a_row + k * a_col
  std::int64_t a_row = 0;
  std::int64_t a_col = 1;
  const float* b = nullptr;  // rows of n, ldb apart
  std::int64_t ldb = 0;
  float* c = nullptr;
  std::int64_t ldc = 0;
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  const float* factor = nullptr;  // null: c is overwritten
};

// Scores of some query rows with a block of keys become weights 2^(score - max), the maximum and
// the sum of each row being carried from block to block. What was accumulated with earlier maxima
// is to be multiplied by the correction.
struct SoftmaxBlock {
  float* scores = nullptr;  // [count rounded up to a multiple of 4, width]: a column is a query row
  std::int64_t count = 0;   // keys, a multiple of 4 when every row sees all
  std::int64_t width = 0;   // 4, 8 or a multiple of 16
  const std::int32_t* first = nullptr;  // [width] row r sees the keys [first[r], end[r])
  const std::int32_t* end = nullptr;    // null both: every row sees all
  float* max = nullptr;                 // [width], -infinity before the first block
  float* sum = nullptr;                 // [width]
  float* correction = nullptr;          // [width]
};

// What rows know after some keys: softmax of their scores times the values is acc / sum.
struct SoftmaxRows {
  float* max = nullptr;
  float* sum = nullptr;
  float* acc = nullptr;  // [rows, cols]
};

struct MathTable {
  // y[r * ldy + c] = dot(row r of x, row c of w), both of `cols` values.
  void (*matmul)(RowsF32 x, RowsF32 w, std::int64_t cols, float* y, std::int64_t ldy) = nullptr;
  // The same with rows of w as they are stored, bit for bit. Null at the baseline, which is faster
  // with decoded ones.
  void (*matmul_f16)(RowsF32 x, StoredRows w, float* y, std::int64_t ldy) = nullptr;
  void (*matmul_bf16)(RowsF32 x, StoredRows w, float* y, std::int64_t ldy) = nullptr;
  void (*matmul_e4m3)(RowsF32 x, StoredRows w, float* y, std::int64_t ldy) = nullptr;
  void (*matmul_e5m2)(RowsF32 x, StoredRows w, float* y, std::int64_t ldy) = nullptr;
  // y = x / sqrt(mean(x^2) + eps) * weight; y may be x.
  void (*rms_norm)(const float* x, const float* weight, float* y, std::int64_t n, float eps) =
      nullptr;
  // Of at least one value.
  float (*max)(const float* x, std::int64_t n) = nullptr;
  // x = exp(x - max), and the sum of that.
  float (*exp_sum)(float* x, std::int64_t n, float max) = nullptr;
  void (*scale)(float* x, std::int64_t n, float factor) = nullptr;
  // y += a x
  void (*axpy)(float a, const float* x, float* y, std::int64_t n) = nullptr;
  // y = gate / (1 + exp(-gate)) * up; y may be gate or up.
  void (*silu_mul)(const float* gate, const float* up, float* y, std::int64_t n) = nullptr;
  // x = 1 / (1 + exp(-x))
  void (*sigmoid)(float* x, std::int64_t n) = nullptr;

  // x[i], x[i + half] = x[i] c[i] - x[i + half] s[i], x[i + half] c[i] + x[i] s[i]
  void (*rotate_halves)(float* x, const float* c, const float* s, std::int64_t half) = nullptr;
  // The same for neighbours x[2i], x[2i + 1]. c and s are given for each value: every cosine twice,
  // every sine negated and as it is.
  void (*rotate_pairs)(float* x, const float* c, const float* s, std::int64_t half) = nullptr;

  // Of attention: see product-inl.h for their bits.
  void (*product)(const Product& p) = nullptr;
  void (*softmax_block)(const SoftmaxBlock& b) = nullptr;
  // Joins what rows know of other keys to what they know; rows of maximum -infinity know nothing.
  void (*softmax_merge)(SoftmaxRows to,
                        SoftmaxRows from,
                        std::int64_t rows,
                        std::int64_t cols) = nullptr;
  // to[c * ld + r] = rows[r][c] * factor; up to the next multiple of 4 r past the rows give 0.
  void (*transpose)(RowPointers rows, std::int64_t cols, float factor, float* to, std::int64_t ld) =
      nullptr;
  // out[rows, cols], as the codecs decode; meant for rows far apart in memory.
  void (*decode_f16_rows)(StoredRows in, float* out) = nullptr;
  void (*decode_bf16_rows)(StoredRows in, float* out) = nullptr;
  void (*decode_f32_rows)(StoredRows in, float* out) = nullptr;
};

// Call only what the processor can run; table.h chooses.
namespace scalar {
extern const MathTable kMath;
}  // namespace scalar

namespace avx2 {
extern const MathTable kMath;
}  // namespace avx2

namespace avx512 {
extern const MathTable kMath;
}  // namespace avx512

}  // namespace graft::kernels::cpu
