// Rows as F16 for the tests of the CUDA kernels.

#pragma once

#include <cstddef>

#include "graft/kernels/cuda/linear/linear.h"
#include "graft/testing/cuda/device.cuh"

namespace graft::kernels::cuda::testing {

struct QuantizedRows {
  QuantizedRows(ConstRows x, std::int64_t rows, std::int64_t cols)
      : memory(half_rows_bytes(rows, cols)), half(half_rows_at(memory.get(), rows, cols)) {
    to_half_rows(x, half, rows, cols, nullptr);
  }

  Device<std::byte> memory;
  HalfRows half;
};

}  // namespace graft::kernels::cuda::testing
