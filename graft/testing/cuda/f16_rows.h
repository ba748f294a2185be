// F16Rows with device memory for the CUDA kernel tests.

#pragma once

#include <cstddef>

#include "graft/kernels/cuda/linear/linear.h"
#include "graft/testing/cuda/device.cuh"

namespace graft::kernels::cuda::testing {

// x[rows, cols] f32 converted to F16 with one scale per row.
struct F16TestRows {
  F16TestRows(ConstRows x, std::int64_t rows, std::int64_t cols)
      : memory(half_rows_bytes(rows, cols)), view(half_rows_at(memory.get(), rows, cols)) {
    to_half_rows(x, view, rows, cols, nullptr);
  }

  DeviceArray<std::byte> memory;
  F16Rows view;
};

}  // namespace graft::kernels::cuda::testing
