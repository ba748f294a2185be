// What is done to rows value by value, and norms. The bits of a row depend on that row alone.

#pragma once

#include <cstdint>

#include "graft/kernels/cuda/linear/linear.h"
#include "graft/kernels/cuda/stream.h"

namespace graft::kernels::cuda {

// y[rows, cols] = x / sqrt(mean(x^2) + eps) * weight; y may be x.
void rms_norm(ConstRows x,
              const float* weight,
              Rows y,
              std::int64_t rows,
              std::int64_t cols,
              float eps,
              Stream stream);

// x += more; y = rms_norm(x). The bits are those of add and rms_norm.
void add_rms_norm(Rows x,
                  ConstRows more,
                  const float* weight,
                  Rows y,
                  std::int64_t rows,
                  std::int64_t cols,
                  float eps,
                  Stream stream);

// The same, with y as bytes too: those of quantize_rows. cols is a multiple of 32.
struct NormSize {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  float eps = 0;
};
void add_rms_norm_q8(Rows x,
                     ConstRows more,
                     const float* weight,
                     Rows y,
                     const Q8Rows& bytes,
                     const NormSize& size,
                     Stream stream);

// y = a + b; y may be either.
void add(ConstRows a, ConstRows b, Rows y, std::int64_t rows, std::int64_t cols, Stream stream);

// y = gate / (1 + exp(-gate)) * up; y may be either.
void silu_mul(
    ConstRows gate, ConstRows up, Rows y, std::int64_t rows, std::int64_t cols, Stream stream);

// y += 1 / (1 + exp(-gates[row])) * x: what a gate lets through of the shared expert.
void add_gated(
    const float* gates, ConstRows x, Rows y, std::int64_t rows, std::int64_t cols, Stream stream);

// y[row] = x[row_ids[row]]
void gather_rows(ConstRows x,
                 const std::int32_t* row_ids,
                 Rows y,
                 std::int64_t rows,
                 std::int64_t cols,
                 Stream stream);

// y = x: parts of rows from one matrix to another.
void copy_columns(ConstRows x, Rows y, std::int64_t rows, std::int64_t cols, Stream stream);

// y[row] = y[row] * scales[row] + bias: ends a product with HalfRows (linear.h) by a library.
// Without bias (null) rows with scale 1, nearly all, cost next to nothing.
void scale_rows(Rows y,
                const float* scales,
                const float* bias,
                std::int64_t rows,
                std::int64_t cols,
                Stream stream);

}  // namespace graft::kernels::cuda
