// Every function of MathTable, compiled for the instruction set of the region this is included in:
// makes kAllMath in an anonymous namespace. Before the region include graft/kernels/cpu/math.h and
// graft/quant/blocks.h, and define GRAFT_VECTOR_BYTES.

#include "graft/quant/simd-inl.h"
// Order matters: what follows uses what stands above.
#include "graft/kernels/cpu/elementwise-inl.h"
#include "graft/kernels/cpu/matmul-inl.h"

namespace {

inline constexpr MathTable kAllMath = {
    .matmul = matmul,
    .weighted_sum = weighted_sum,
    .rms_norm = rms_norm,
    .max = max,
    .exp_sum = exp_sum,
    .scale = scale,
    .axpy = axpy,
    .silu_mul = silu_mul,
    .sigmoid = sigmoid,
};

}  // namespace

#undef GRAFT_INLINE
#undef GRAFT_VECTOR_BYTES
