// Products of rows with weights on a GPU: the kernel that fits the number of rows and the type.

#pragma once

#include "graft/kernels/cuda/linear.h"
#include "graft/ops/cuda/cuda_state.h"
#include "graft/ops/registry.h"

namespace graft::ops {

// F32: every operand as it is. Fast: rows rounded to bytes where few of them meet weights of such
// types, to F16 where there are many.
enum class Precision : std::uint8_t { Fast, F32 };

// The kwarg "precision": "fast" or "f32".
Precision precision_kwarg(const BuildContext& context);

// Up to so many rows the weights are read once for all of them.
inline constexpr std::int64_t kFewRows = 8;

// With scratch memory of the pass.
void multiply(const cuda::LinearBatch& products,
              Precision precision,
              CudaState& state,
              Workspace& workspace);

}  // namespace graft::ops
