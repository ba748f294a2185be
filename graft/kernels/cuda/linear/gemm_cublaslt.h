// Products of plain matrices by NVIDIA's library, which is opened at run time: graft is built
// without it, and runs without it (gemm in linear.h then does the same more slowly).

#pragma once

#include <cstddef>
#include <cstdint>

#include "graft/kernels/cuda/stream.h"
#include "graft/tensor/dtype.h"

namespace graft::kernels::cuda {

// y[rows, out] = x[rows, in] weight[out, in]^T + bias. x and weight are of one type, F32, F16 or
// BF16, and multiplied as such (F32 without TF32); sums and y are floats. Rows of x and of y may
// stand further apart than they are long.
struct PlainProduct {
  DType dtype = DType::F16;
  const void* weight = nullptr;
  const void* x = nullptr;
  std::int64_t x_stride = 0;  // values
  Rows y = {};
  const float* bias = nullptr;  // [out]; null: none
  std::int64_t rows = 0;
  std::int64_t out = 0;
  std::int64_t in = 0;
};

// What the library may use for itself during a product.
inline constexpr std::size_t kCublasLtWorkspace = std::size_t{32} << 20;

// Opens the library for the present GPU; false: it is not there. The first call for a GPU allocates
// and must not be made while a graph is captured.
bool has_cublaslt();

// False: the library is not there or has no kernel for this product, and nothing was enqueued. The
// kernel is chosen at the first product of a form and remembered.
bool linear_cublaslt(const PlainProduct& product,
                     void* workspace,
                     std::size_t workspace_bytes,
                     Stream stream);

}  // namespace graft::kernels::cuda
