// Float kernels of the operators, compiled once per instruction set. The order of every sum depends
// on the row length only: 16 lanes, lane i sums the values i, i + 16, …, then a fixed tree over the
// lanes. So the bits depend on neither the instruction set nor the other rows. Only the matrix
// products and the softmax of attention use FMA where available: see product-inl.h.

#pragma once

#include <cstddef>
#include <cstdint>

#include "graft/kernels/activation_types.h"
#include "graft/quant/stored_rows.h"

namespace graft::kernels::cpu {

using quant::StoredRows;

// [rows, cols] floats, rows `stride` floats apart. No alignment needed.
struct RowsF32 {
  const float* data = nullptr;
  std::int64_t rows = 0;
  std::int64_t stride = 0;
};

// Rows at arbitrary addresses.
struct RowPointers {
  const float* const* data = nullptr;
  std::int64_t rows = 0;
};

// c[m, n] = factor[m] c[m, n] + sum over k of a[m, k] b[k, n], k ascending: one chain of fused
// multiply-adds per element (separate multiplications and additions at the baseline).
struct Product {
  const float* a = nullptr;  // a[m, k] is at m * a_row + k * a_col
  std::int64_t a_row = 0;
  std::int64_t a_col = 1;
  const float* b = nullptr;  // [k, n], rows ldb floats apart
  std::int64_t ldb = 0;
  float* c = nullptr;  // [m, n], rows ldc floats apart
  std::int64_t ldc = 0;
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  const float* factor = nullptr;  // [m]; null: c is overwritten
};

// One step of the online softmax: turns the scores of query rows with a block of keys into weights
// 2^(score - max) in place and updates the running max and sum of each row. The caller multiplies
// the output accumulated so far by `correction` = 2^(old max - new max).
struct SoftmaxBlock {
  float* scores = nullptr;  // [count rounded up to a multiple of 4, width]: a column is a query row
  std::int64_t count = 0;   // keys; a multiple of 4 without a mask
  std::int64_t width = 0;   // query rows: 4, 8 or a multiple of 16
  const std::int32_t* first = nullptr;  // [width] mask: row r sees the keys [first[r], end[r])
  const std::int32_t* end = nullptr;    // [width]; both null: no mask
  float* max = nullptr;                 // [width] in/out, -infinity before the first block
  float* sum = nullptr;                 // [width] in/out, 0 before the first block
  float* correction = nullptr;          // [width] out
};

// Partial softmax state of query rows over a KV split: max and sum of 2^(score - max), and the
// unnormalised output acc = sum of 2^(score - max) * value. The attention output is acc / sum.
struct SoftmaxState {
  float* max = nullptr;  // [rows]; -infinity: no keys yet
  float* sum = nullptr;  // [rows]
  float* acc = nullptr;  // [rows, cols]
};

// The delta rule of one value head on `cols` columns of its state S[key_dim, …] over successive
// tokens t: S *= decay[t]; delta = beta[t] (v[t] - S^T k[t]); S += k[t] delta; out[t] = S^T q[t].
// Columns are independent, and sums run over the rows of S in ascending order.
struct DeltaRule {
  const float* q = nullptr;  // [tokens, key_dim], rows qk_stride floats apart
  const float* k = nullptr;
  std::int64_t qk_stride = 0;
  const float* v = nullptr;  // [tokens, cols]
  std::int64_t v_stride = 0;
  const float* decay = nullptr;  // [tokens], gate_stride floats apart
  const float* beta = nullptr;
  std::int64_t gate_stride = 0;
  float* out = nullptr;  // [tokens, cols]; may be v
  std::int64_t out_stride = 0;
  float* state = nullptr;  // [key_dim, cols], rows state_stride floats apart
  std::int64_t state_stride = 0;
  std::int64_t key_dim = 0;
  std::int64_t cols = 0;
  std::int64_t tokens = 0;
};

// Keys or values of one head in the KV cache, as stored: columns of rows at arbitrary addresses.
struct StoredBlock {
  const std::byte* const* rows = nullptr;  // [count], of whole cache rows
  std::int64_t count = 0;                  // at least 1
  std::int64_t cols = 0;                   // a multiple of 16, and of the type's blocks
  std::int64_t offset = 0;                 // bytes from the beginning of a row
  std::int64_t bytes = 0;                  // of `cols` values
  const std::byte* const* next = nullptr;  // [count] rows to prefetch; null: none
};

// acc[m, cols] = factor[m] acc[m, cols] + sum over k of weights[k, m] values[k, cols], k ascending.
struct WeightedSum {
  const float* weights = nullptr;  // [count, width]
  std::int64_t width = 0;
  const float* factor = nullptr;  // [m]
  float* acc = nullptr;           // [m, cols], rows `ld` floats apart
  std::int64_t ld = 0;
  std::int64_t m = 0;
};

// Attention on the KV cache as stored, with the bits of `product` on decoded rows. Both null at
// levels with vectors of 16 bytes, where decoding first is faster.
struct StoredAttention {
  // out[c * ld + r] = column c of row r, for the count rounded up to a multiple of 16 and at most
  // ld; rows past the end repeat the last one.
  void (*decode_transposed)(const StoredBlock& in, float* out, std::int64_t ld) = nullptr;
  void (*add_values)(const StoredBlock& in, const WeightedSum& sum) = nullptr;
};

struct MathTable {
  // y[r * ldy + c] = dot(row r of x, row c of w), both of `cols` values.
  void (*matmul)(RowsF32 x, RowsF32 w, std::int64_t cols, float* y, std::int64_t ldy) = nullptr;
  // The same on stored rows of w, with the same bits as on decoded rows. Null at the baseline,
  // where decoding first is faster.
  void (*matmul_f16)(RowsF32 x, StoredRows w, float* y, std::int64_t ldy) = nullptr;
  void (*matmul_bf16)(RowsF32 x, StoredRows w, float* y, std::int64_t ldy) = nullptr;
  void (*matmul_e4m3)(RowsF32 x, StoredRows w, float* y, std::int64_t ldy) = nullptr;
  void (*matmul_e5m2)(RowsF32 x, StoredRows w, float* y, std::int64_t ldy) = nullptr;
  // y = x / sqrt(mean(x^2) + eps) * weight; y may be x.
  void (*rms_norm)(const float* x, const float* weight, float* y, std::int64_t n, float eps) =
      nullptr;
  // n is at least 1.
  float (*max)(const float* x, std::int64_t n) = nullptr;
  // x = exp(x - max); returns the sum of x.
  float (*exp_sum)(float* x, std::int64_t n, float max) = nullptr;
  void (*scale)(float* x, std::int64_t n, float factor) = nullptr;
  // y += a x
  void (*axpy)(float a, const float* x, float* y, std::int64_t n) = nullptr;
  // y = gate / (1 + exp(-gate)) * up; y may be gate or up.
  void (*silu_mul)(const float* gate, const float* up, float* y, std::int64_t n) = nullptr;
  // y = gelu(gate) * up, gelu in its tanh approximation; y may be gate or up.
  void (*gelu_mul)(const float* gate, const float* up, float* y, std::int64_t n) = nullptr;
  // y = g / (1 + exp(-1.702 g)) * (u + 1) with g = min(gate, limit) and u = up clamped to [-limit,
  // limit]; y may be gate or up.
  void (*clamped_swiglu)(
      const float* gate, const float* up, float* y, std::int64_t n, float limit) = nullptr;
  // x = 1 / (1 + exp(-x))
  void (*sigmoid)(float* x, std::int64_t n) = nullptr;

  // RoPE on split halves (NeoX style):
  // x[i], x[i + half] = x[i] c[i] - x[i + half] s[i], x[i + half] c[i] + x[i] s[i]
  void (*rope_halves)(float* x, const float* c, const float* s, std::int64_t half) = nullptr;
  // RoPE on neighbouring pairs x[2i], x[2i + 1] (GPT-J style). c and s have 2 half values: every
  // cosine twice, every sine first negated, then plain.
  void (*rope_pairs)(float* x, const float* c, const float* s, std::int64_t half) = nullptr;

  // y[i] = silu(sum over j of taps[j * n + i] x[j][i]), j ascending: a causal convolution of n
  // channels over num_taps rows.
  void (*conv_silu)(const float* const* x,
                    const float* taps,
                    std::int64_t num_taps,
                    float* y,
                    std::int64_t n) = nullptr;
  // x *= factor / sqrt(sum(x^2) + eps)
  void (*l2_norm)(float* x, std::int64_t n, float eps, float factor) = nullptr;
  // y *= 1 / (1 + exp(-gate))
  void (*sigmoid_mul)(const float* gate, float* y, std::int64_t n) = nullptr;
  void (*delta_rule)(const DeltaRule& rule) = nullptr;

  // Attention; see product-inl.h for the order of the sums.
  void (*product)(const Product& p) = nullptr;
  void (*softmax_block)(const SoftmaxBlock& b) = nullptr;
  // Merges two partial softmax states (max, sum, output) of [rows, cols]; a max of -infinity is an
  // empty state.
  void (*softmax_merge)(SoftmaxState to,
                        SoftmaxState from,
                        std::int64_t rows,
                        std::int64_t cols) = nullptr;
  // to[c * ld + r] = rows[r][c] * factor; r is padded with zeros to a multiple of 4.
  void (*transpose)(RowPointers rows, std::int64_t cols, float factor, float* to, std::int64_t ld) =
      nullptr;
  // out[rows, cols] = decoded rows, the same bits as the codecs; prefetches `next` for rows that
  // are far apart in memory (KV cache).
  void (*decode_f16_rows)(StoredRows in, float* out) = nullptr;
  void (*decode_bf16_rows)(StoredRows in, float* out) = nullptr;
  void (*decode_f32_rows)(StoredRows in, float* out) = nullptr;
  StoredAttention attend_f32 = {};
  StoredAttention attend_f16 = {};
  StoredAttention attend_bf16 = {};
  StoredAttention attend_e4m3 = {};
  StoredAttention attend_q8_0 = {};
  StoredAttention attend_q4_0 = {};
};

// Call only levels that the CPU supports; table.h selects one.
namespace scalar {
extern const MathTable kMath;
}  // namespace scalar

namespace avx2 {
extern const MathTable kMath;
}  // namespace avx2

namespace avx512 {
extern const MathTable kMath;
}  // namespace avx512

namespace neon {
extern const MathTable kMath;
}  // namespace neon

}  // namespace graft::kernels::cpu
