// Elementwise kernels and norms over f32 rows. The bits of a row do not depend on the other rows of
// the call.

#pragma once

#include <cstdint>

#include "graft/kernels/cuda/linear/linear.h"
#include "graft/kernels/cuda/linear/panels/panel_rows.h"
#include "graft/kernels/cuda/stream.h"

namespace graft::kernels::cuda {

// y[rows, cols] = x / sqrt(mean(x^2) + eps) * weight[cols]; y may alias x.
void rms_norm(ConstRows x,
              const float* weight,
              Rows y,
              std::int64_t rows,
              std::int64_t cols,
              float eps,
              Stream stream);

// x += residual; y = rms_norm(x). x, residual, y: [rows, cols] f32. Same bits as add() followed by
// rms_norm().
void add_rms_norm(Rows x,
                  ConstRows residual,
                  const float* weight,
                  Rows y,
                  std::int64_t rows,
                  std::int64_t cols,
                  float eps,
                  Stream stream);

struct NormSize {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  float eps = 0;
};
// add_rms_norm() that also quantizes y to int8 with one scale per 32 values; same bits as
// quantize_rows(). cols is a multiple of 32.
void add_rms_norm_q8(Rows x,
                     ConstRows residual,
                     const float* weight,
                     Rows y,
                     const Q8Rows& q8,
                     const NormSize& size,
                     Stream stream);

// add_rms_norm() that also writes y as panel rows; same bits as to_panel_rows(). cols is a multiple
// of 4, all rows are 16-byte aligned.
void add_rms_norm_panel_rows(Rows x,
                             ConstRows residual,
                             const float* weight,
                             Rows y,
                             const PanelRows& panel_rows,
                             const NormSize& size,
                             Stream stream);

// y[rows, cols] = a + b; y may alias a or b.
void add(ConstRows a, ConstRows b, Rows y, std::int64_t rows, std::int64_t cols, Stream stream);

// y[rows, cols] = silu(gate) * up; y may alias gate or up.
void silu_mul(
    ConstRows gate, ConstRows up, Rows y, std::int64_t rows, std::int64_t cols, Stream stream);

// y[rows, cols] = silu(min(gate, limit)) * up, up clamped to [-limit, limit]; y may alias gate or
// up.
void limited_silu_mul(ConstRows gate,
                      ConstRows up,
                      Rows y,
                      float limit,
                      std::int64_t rows,
                      std::int64_t cols,
                      Stream stream);

// y[rows, cols] = gelu(gate) * up, gelu in its tanh approximation; y may alias gate or up.
void gelu_mul(
    ConstRows gate, ConstRows up, Rows y, std::int64_t rows, std::int64_t cols, Stream stream);

// y[rows, cols] *= factor.
void scale(Rows y, float factor, std::int64_t rows, std::int64_t cols, Stream stream);

// y[row] += sigmoid(gates[row]) * x[row]: adds the gated shared expert.
void add_gated(
    const float* gates, ConstRows x, Rows y, std::int64_t rows, std::int64_t cols, Stream stream);

// y[rows, cols] *= sigmoid(gates): the output gate of attention.
void mul_sigmoid(ConstRows gates, Rows y, std::int64_t rows, std::int64_t cols, Stream stream);

// y[row] = x[row_ids[row]], row_ids[rows].
void gather_rows(ConstRows x,
                 const std::int32_t* row_ids,
                 Rows y,
                 std::int64_t rows,
                 std::int64_t cols,
                 Stream stream);

// y[row, i] = x[row, order[i]], order[cols]; y does not overlap x.
void gather_columns(ConstRows x,
                    const std::int32_t* order,
                    Rows y,
                    std::int64_t rows,
                    std::int64_t cols,
                    Stream stream);

// y[pair, i] = x[pair / top_k, orders[expert_ids[pair], i]] for num_pairs pairs, orders[experts,
// cols]; rows of pairs without expert (negative) are 0. y does not overlap x.
struct PairColumns {
  ConstRows x;
  const std::int32_t* expert_ids = nullptr;
  const std::int32_t* orders = nullptr;
  Rows y;
};
void gather_pair_columns(const PairColumns& job,
                         std::int64_t num_pairs,
                         std::int64_t top_k,
                         std::int64_t cols,
                         Stream stream);

// y[rows, cols] = x[rows, cols]: copies a column range between matrices of different strides.
void copy_columns(ConstRows x, Rows y, std::int64_t rows, std::int64_t cols, Stream stream);

// y[row] = y[row] * scales[row] + bias[cols]: the epilogue of a cuBLASLt product with F16Rows
// (linear.h). With bias null, rows of scale 1 (nearly all) are skipped.
void scale_rows(Rows y,
                const float* scales,
                const float* bias,
                std::int64_t rows,
                std::int64_t cols,
                Stream stream);

}  // namespace graft::kernels::cuda
