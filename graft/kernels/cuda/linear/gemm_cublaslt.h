// GEMM with dense weights by cuBLASLt, which is loaded with dlopen: graft builds and runs without
// it (gemm in linear.h then does the same more slowly).

#pragma once

#include <cstddef>
#include <cstdint>

#include "graft/kernels/cuda/stream.h"
#include "graft/tensor/dtype.h"

namespace graft::kernels::cuda {

// y[rows, out] = x[rows, in] weight[out, in]^T + bias. x and weight have the same dtype, F32, F16
// or BF16, and are multiplied in it (F32 without TF32); sums and y are f32.
struct DenseGemm {
  DType dtype = DType::F16;
  const void* weight = nullptr;
  const void* x = nullptr;
  std::int64_t x_stride = 0;  // values from row to row, at least `in`
  Rows y = {};
  const float* bias = nullptr;  // [out]; null: none
  std::int64_t rows = 0;
  std::int64_t out = 0;
  std::int64_t in = 0;
};

// Size of the workspace in bytes.
inline constexpr std::size_t kCublasLtWorkspace = std::size_t{32} << 20;

// Loads the library for the current device; false: not available. The first call per device
// allocates and must not run during graph capture.
bool has_cublaslt();

// False: the library is not available or has no kernel for this product; nothing was enqueued. The
// algorithm is selected at the first product of a shape and cached.
bool gemm_cublaslt(const DenseGemm& product,
                   void* workspace,
                   std::size_t workspace_bytes,
                   Stream stream);

}  // namespace graft::kernels::cuda
