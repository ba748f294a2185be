// Matrix products on a GPU: selects the kernel by the number of rows and the dtypes.

#pragma once

#include <cstdint>
#include <span>

#include "graft/kernels/cuda/linear/linear.h"
#include "graft/kernels/cuda/linear/panels/panel_rows.h"
#include "graft/ops/activation.h"
#include "graft/ops/cuda/runtime/cuda_context.h"
#include "graft/ops/registry.h"
#include "graft/ops/weight.h"

namespace graft::ops::cuda {

// F32: operands are not rounded. Fast: weights and activations are rounded to f16; on GPUs without
// panel_gemm() activations are quantized to int8 for a few rows (GEMV) where the weight type has an
// int8 kernel.
enum class Precision : std::uint8_t { Fast, F32 };

// The kwarg "precision": "fast" or "f32".
Precision precision_kwarg(const BuildContext& context);

inline kernels::cuda::Arithmetic arithmetic_of(Precision precision) {
  return precision == Precision::F32 ? kernels::cuda::Arithmetic::F32
                                     : kernels::cuda::Arithmetic::F16;
}

// Max rows that are quantized to int8: up to here reading the weights once per eight rows (GEMV) is
// faster than dequantizing them for a GEMM.
inline constexpr std::int64_t kMaxInt8Rows = 16;
// Max rows of panel_gemm(): beyond, dequantizing the weights once for cuBLASLt is faster.
inline constexpr std::int64_t kMaxPanelRows = 256;

// The layout of weights on the current GPU.
kernels::cuda::Layout weight_layout(const Weight& weight, Precision precision);

// y[rows, out] = x W^T + bias
struct Product {
  const kernels::cuda::Matrix* weight = nullptr;
  const float* bias = nullptr;  // null: none
  TensorView y;
  Precision precision = Precision::Fast;
};

// The activation format for a product of the weight with `rows` rows.
ActivationFormat input_format(const kernels::cuda::Matrix& weight,
                              Precision precision,
                              std::int64_t rows);

// Int8 rows in the pass's workspace, uninitialized.
Int8Rows allocate_int8(std::int64_t rows, std::int64_t cols, Workspace& workspace);
// F16 rows for panel_gemm() in the pass's workspace, uninitialized.
F16Rows allocate_f16(std::int64_t rows, std::int64_t cols, Workspace& workspace);
inline kernels::cuda::PanelRows panel_rows_of(const F16Rows& rows, std::int64_t count) {
  return {.values = rows.values, .scales = rows.scales, .rows = count};
}
inline kernels::cuda::Q8Rows q8_rows_of(const Int8Rows& rows) {
  return {.quants = rows.quants, .scales = rows.scales};
}

// All products share x, which is converted at most once per format; scratch is from the workspace.
void multiply(const Activation& x,
              std::span<const Product> products,
              CudaContext& gpu,
              Workspace& workspace);

}  // namespace graft::ops::cuda
