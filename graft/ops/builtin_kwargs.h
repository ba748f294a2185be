// The declarations of the kwargs of graft's own operators, for the registrations and for the
// constructors that read them. Those of CUDA operators are compiled in too: plans need no
// libgraft_cuda.so.

#pragma once

#include <optional>
#include <string_view>

#include "graft/ops/kwargs.h"
#include "graft/tensor/dtype.h"

namespace graft::ops {

const Kwarg& repack_kwarg();  // cpu.linear, cpu.experts
const Kwarg& defer_kwarg();   // cpu.experts: experts of a token
const Kwarg& absorb_kwarg();  // cpu.mla
// Latent attention. Without it, cpu.mla computes as with absorb, cuda.mla by the smaller number of
// products.
const Kwarg& absorb_for_prefill_kwarg();
const Kwarg& cache_type_kwarg();    // cpu.kv_cache, cuda.kv_cache: dtype
const Kwarg& block_tokens_kwarg();  // cpu.kv_cache, cuda.kv_cache
const Kwarg& stream_from_kwarg();   // cuda.experts: tokens of a prefill pass
const Kwarg& gpu_experts_kwarg();   // cuda.experts: copies of a layer in GPU memory
const Kwarg& precision_kwarg();     // cuda.linear, cuda.experts, cuda.attention, cuda.mla

// The type that `dtype` of a KV cache names: "fp8" is E4M3 without scales; values beyond 448 are
// clamped.
std::optional<DType> cache_dtype(std::string_view word);

}  // namespace graft::ops
