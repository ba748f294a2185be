// Rows as F16 for the tests of the CUDA kernels.

#pragma once

#include <cstddef>

#include "graft/kernels/cuda/linear.h"
#include "graft/kernels/cuda/test_device.cuh"

namespace graft::cuda::testing {

struct RoundedRows {
  RoundedRows(ConstRows x, std::int64_t rows, std::int64_t cols)
      : memory(half_rows_bytes(rows, cols)), half(half_rows_at(memory.get(), rows, cols)) {
    to_half_rows(x, half, rows, cols, nullptr);
  }

  Device<std::byte> memory;
  HalfRows half;
};

}  // namespace graft::cuda::testing
