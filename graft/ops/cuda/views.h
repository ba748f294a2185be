// Converts TensorView to the kernels' matrix views.

#pragma once

#include "graft/kernels/cuda/stream.h"
#include "graft/tensor/tensor.h"

namespace graft::ops::cuda {

inline kernels::cuda::Rows rows_of(TensorView x) {
  return {.data = x.f32(), .stride = x.cols()};
}

// Columns from `first` on.
inline kernels::cuda::Rows rows_of(TensorView x, std::int64_t first) {
  return {.data = x.f32() + first, .stride = x.cols()};
}

}  // namespace graft::ops::cuda
