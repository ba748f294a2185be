// Matrix products on a GPU: selects the kernel by the number of rows and the dtypes.

#pragma once

#include <cstdint>
#include <span>

#include "graft/kernels/cuda/linear/linear.h"
#include "graft/ops/activation.h"
#include "graft/ops/cuda/cuda_context.h"
#include "graft/ops/registry.h"

namespace graft::ops::cuda {

// F32: operands are not rounded. Fast: activations are quantized to int8 for a few rows (GEMV)
// where the weight type has an int8 kernel, and to f16 for many rows (GEMM).
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
inline kernels::cuda::Q8Rows q8_rows_of(const Int8Rows& rows) {
  return {.quants = rows.quants, .scales = rows.scales};
}

// All products share x, which is converted at most once per format; scratch is from the workspace.
void multiply(const Activation& x,
              std::span<const Product> products,
              CudaContext& gpu,
              Workspace& workspace);

}  // namespace graft::ops::cuda
