// silu(gate) * up, bit-identical in every kernel: the intrinsics keep the compiler from contracting
// multiplications and additions into FMAs.

#pragma once

#include <cuda_runtime.h>

namespace graft::kernels::cuda {

__device__ inline float sigmoid(float x) {
  return 1.0F / __fadd_rn(1.0F, expf(-x));
}

__device__ inline float swiglu(float gate, float up) {
  return __fmul_rn(__fmul_rn(gate, sigmoid(gate)), up);
}

}  // namespace graft::kernels::cuda
