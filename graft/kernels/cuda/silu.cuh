// silu(gate) * up and its limited forms, bit-identical in every kernel: the intrinsics keep
// the compiler from contracting multiplications and additions into FMAs.

#pragma once

#include <cuda_runtime.h>

#include "graft/kernels/activation_types.h"

namespace graft::kernels::cuda {

__device__ inline float sigmoid(float x) {
  return 1.0F / __fadd_rn(1.0F, expf(-x));
}

__device__ inline float swiglu(float gate, float up) {
  return __fmul_rn(__fmul_rn(gate, sigmoid(gate)), up);
}

// With g = min(gate, limit) and u = up clamped to [-limit, limit]: swiglu(g, u) if limits_silu,
// else GPT-OSS's g * sigmoid(1.702 g) * (u + 1); limit 0: swiglu(gate, up)
__device__ inline float swiglu(float gate, float up, float limit, bool limits_silu) {
  if (limit == 0.0F) return swiglu(gate, up);
  const float g = fminf(gate, limit);
  const float u = fminf(fmaxf(up, -limit), limit);
  if (limits_silu) return swiglu(g, u);
  const float weight = sigmoid(__fmul_rn(g, kClampedSwigluAlpha));
  return __fmul_rn(__fmul_rn(g, weight), __fadd_rn(u, 1.0F));
}

}  // namespace graft::kernels::cuda
