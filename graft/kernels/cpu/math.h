// Float arithmetic of the operators, compiled once per instruction set. Every sum runs in an order
// fixed by the length of one row: 16 lanes, lane i taking the values i, i + 16, …, then a fixed
// tree over the lanes. So the bits depend on neither the instruction set nor the other rows.

#pragma once

#include <cstdint>

namespace graft::cpu {

// `rows` rows of floats, `stride` floats apart. Needs no alignment.
struct RowsF32 {
  const float* data = nullptr;
  std::int64_t rows = 0;
  std::int64_t stride = 0;
};

struct MathTable {
  // y[r * ldy + c] = dot(row r of x, row c of w), both of `cols` values.
  void (*matmul)(RowsF32 x, RowsF32 w, std::int64_t cols, float* y, std::int64_t ldy) = nullptr;
  // y[c] += weights[0] * row 0[c], then weights[1] * row 1[c], and so on.
  void (*weighted_sum)(const float* weights, RowsF32 rows, std::int64_t cols, float* y) = nullptr;
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

}  // namespace graft::cpu
