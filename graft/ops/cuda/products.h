// Products of rows with weights on a GPU: the kernels that fit the number of rows and the types.

#pragma once

#include <cstdint>
#include <span>

#include "graft/kernels/cuda/linear/linear.h"
#include "graft/ops/cuda/cuda_state.h"
#include "graft/ops/registry.h"

namespace graft::ops::cuda {

// F32: every operand as it is. Fast: rows rounded to bytes where few of them meet weights of such
// types, to F16 where there are many.
enum class Precision : std::uint8_t { Fast, F32 };

// The kwarg "precision": "fast" or "f32".
Precision precision_kwarg(const BuildContext& context);

inline kernels::cuda::Arithmetic arithmetic_of(Precision precision) {
  return precision == Precision::F32 ? kernels::cuda::Arithmetic::F32
                                     : kernels::cuda::Arithmetic::F16;
}

// Up to so many rows are rounded to bytes: it is faster to read weights again for every eight of
// them than to decode them for all.
inline constexpr std::int64_t kMaxRowsAsBytes = 16;

// y[rows, out] = x W^T + bias
struct Product {
  const kernels::cuda::Matrix* weight = nullptr;
  const float* bias = nullptr;  // null: none
  TensorView y;
  Precision precision = Precision::Fast;
};

// Whether x[rows, cols] is rounded to bytes for this product.
bool is_as_bytes(std::int64_t rows, std::int64_t cols, const Product& product);
// For one that is, with x rounded already.
void multiply_bytes(const kernels::cuda::Q8Rows& x,
                    std::int64_t rows,
                    const Product& product,
                    CudaState& state);

// All with the same x, which is rounded once for all of them; with scratch memory of the pass.
void multiply(TensorView x,
              std::span<const Product> products,
              CudaState& state,
              Workspace& workspace);

}  // namespace graft::ops::cuda
