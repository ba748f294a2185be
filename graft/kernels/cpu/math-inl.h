// All functions of MathTable, compiled for the instruction set of the including region: defines
// kAllMath in an anonymous namespace. Before the region include graft/kernels/cpu/math.h and
// graft/quant/blocks.h, and define GRAFT_VECTOR_BYTES.

#include "graft/quant/simd-inl.h"
// The order matters: later files use the earlier ones.
// clang-format off
#include "graft/kernels/cpu/elementwise-inl.h"
#include "graft/kernels/cpu/product-inl.h"
#include "graft/kernels/cpu/attention/attention-inl.h"
#include "graft/kernels/cpu/rows-inl.h"
#include "graft/kernels/cpu/attention/stored-inl.h"
#include "graft/kernels/cpu/matmul-inl.h"
#include "graft/kernels/cpu/recurrent-inl.h"
// clang-format on

namespace {

inline constexpr MathTable kAllMath = {
    .matmul = matmul,
#if !GRAFT_SCALAR
    .matmul_f16 = matmul_stored<FromF16>,
    .matmul_bf16 = matmul_stored<FromBf16>,
    .matmul_e4m3 = matmul_stored<FromE4m3>,
    .matmul_e5m2 = matmul_stored<FromE5m2>,
#endif
    .rms_norm = rms_norm,
    .max = max,
    .exp_sum = exp_sum,
    .scale = scale,
    .axpy = axpy,
    .silu_mul = silu_mul,
    .gelu_mul = gelu_mul,
    .clamped_swiglu = clamped_swiglu,
    .sigmoid = sigmoid,
    .rope_halves = rope_halves,
    .rope_pairs = rope_pairs,
    .conv_silu = conv_silu,
    .l2_norm = l2_norm,
    .sigmoid_mul = sigmoid_mul,
    .delta_rule = delta_rule,
    .product = product,
    .softmax_block = softmax_block,
    .softmax_merge = softmax_merge,
    .transpose = transpose,
    .decode_f16_rows = decode_rows<FromF16>,
    .decode_bf16_rows = decode_rows<FromBf16>,
    .decode_f32_rows = decode_rows<FromF32>,
#if GRAFT_VECTOR_BYTES >= 32
    .attend_f32 = kStoredAttention<VectorOf<FromF32>>,
    .attend_f16 = kStoredAttention<VectorOf<FromF16>>,
    .attend_bf16 = kStoredAttention<VectorOf<FromBf16>>,
    .attend_e4m3 = kStoredAttention<VectorE4m3>,
    .attend_q8_0 = kStoredAttention<VectorQ80>,
    .attend_q4_0 = kStoredAttention<VectorQ40>,
#endif
};

}  // namespace

#undef GRAFT_INLINE
#undef GRAFT_NEON
#undef GRAFT_SCALAR
#undef GRAFT_VECTOR_BYTES
