// The products of attention with wgmma (sm_90a): scores of 64 query rows and 128 keys, both in
// shared memory, and weights in registers times values in shared memory. All operands in shared
// memory have permuted vectors (wgmma_permuted_operand).

#pragma once

#include "graft/kernels/cuda/attention/mma.cuh"
#include "graft/kernels/cuda/wgmma.cuh"

namespace graft::kernels::cuda {

#if GRAFT_HAS_WGMMA

#define GRAFT_SUMS_64(s)                                                            \
  GRAFT_SUMS_8(s, 0), GRAFT_SUMS_8(s, 8), GRAFT_SUMS_8(s, 16), GRAFT_SUMS_8(s, 24), \
      GRAFT_SUMS_8(s, 32), GRAFT_SUMS_8(s, 40), GRAFT_SUMS_8(s, 48), GRAFT_SUMS_8(s, 56)
#define GRAFT_WORDS_32                                                     \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define GRAFT_WORDS_64                                                                 \
  GRAFT_WORDS_32                                                                       \
  ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
  "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"

// wgmma_scores(): scores (+)= queries[64, 16] keys[128, 16]^T; from 0 unless `adds`.
// wgmma_values(): values += weights[64, 16] values[16, 128 or 64]; a: 4 words of an A fragment of
// mma.cuh.
#define GRAFT_ATTENTION_PRODUCTS(Mma, type)                                                       \
  __device__ inline void wgmma_scores(Mma, std::uint64_t a, std::uint64_t b, bool adds,           \
                                      float(&s)[64]) {                                            \
    asm volatile(                                                                                 \
        "{ .reg .pred p; setp.ne.b32 p, %66, 0;\n"                                                \
        "wgmma.mma_async.sync.aligned.m64n128k16.f32." type "." type " {" GRAFT_WORDS_64          \
        "}, %64, %65, p, 1, 1, 0, 0; }"                                                           \
        : GRAFT_SUMS_64(s)                                                                        \
        : "l"(a), "l"(b), "r"(static_cast<int>(adds)));                                           \
  }                                                                                               \
  __device__ inline void wgmma_values(Mma, const std::uint32_t* a, std::uint64_t b,               \
                                      float(&s)[64]) {                                            \
    asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32." type "." type " {" GRAFT_WORDS_64 \
                 "}, {%64, %65, %66, %67}, %68, 1, 1, 1, 1;"                                      \
                 : GRAFT_SUMS_64(s)                                                               \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));                           \
  }                                                                                               \
  __device__ inline void wgmma_values(Mma, const std::uint32_t* a, std::uint64_t b,               \
                                      float(&s)[32]) {                                            \
    asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32." type "." type " {" GRAFT_WORDS_32  \
                 "}, {%32, %33, %34, %35}, %36, 1, 1, 1, 1;"                                      \
                 : GRAFT_SUMS_8(s, 0), GRAFT_SUMS_8(s, 8), GRAFT_SUMS_8(s, 16),                   \
                   GRAFT_SUMS_8(s, 24)                                                            \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));                           \
  }

GRAFT_ATTENTION_PRODUCTS(MmaF16, "f16")
GRAFT_ATTENTION_PRODUCTS(MmaBF16, "bf16")

#endif

}  // namespace graft::kernels::cuda
