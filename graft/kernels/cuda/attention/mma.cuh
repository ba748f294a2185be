// Wrappers of the warp-level tensor core instructions and async copies that attention uses.
// Fragments of mma.m16n8k16 are spread over the lanes as the PTX manual describes; with g = lane /
// 4, t = lane % 4:
//
//    A  16 x 16  4 words: (row g, cols 2t 2t+1), (g + 8, same), (g, cols 2t+8 2t+9), (g + 8, same)
//    B  16 x 8   2 words: (rows 2t 2t+1, col g), (rows 2t+8 2t+9, col g)
//    D  16 x 8   4 floats: (row g, cols 2t 2t+1), (row g + 8, same)

#pragma once

#include <type_traits>

#include "graft/kernels/cuda/bulk_copy.cuh"
#include "graft/kernels/cuda/cache/cache_types.cuh"

namespace graft::kernels::cuda {

// The instructions exist from sm_80 on; code for older GPUs is empty and not called.
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
#define GRAFT_HAS_MMA 1
#else
#define GRAFT_HAS_MMA 0
#endif

struct MmaF16 {
  static __device__ std::uint32_t pack(float low, float high) {
    std::uint32_t pair = 0;
#if GRAFT_HAS_MMA
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
#endif
    return pair;
  }
  // d += a b, f32 accumulation
  static __device__ void mma(const std::uint32_t (&a)[4],
                             std::uint32_t b0,
                             std::uint32_t b1,
                             float (&d)[4]) {
#if GRAFT_HAS_MMA
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#endif
  }
};

struct MmaBF16 {
  static __device__ std::uint32_t pack(float low, float high) {
    std::uint32_t pair = 0;
#if GRAFT_HAS_MMA
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
#endif
    return pair;
  }
  static __device__ void mma(const std::uint32_t (&a)[4],
                             std::uint32_t b0,
                             std::uint32_t b1,
                             float (&d)[4]) {
#if GRAFT_HAS_MMA
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#endif
  }
};

// The products of keys and values of a cache type: those of quantized types become F16.
template <class Cache>
using MmaOf = std::conditional_t<std::is_same_v<Cache, CacheBF16>, MmaBF16, MmaF16>;

// Four 8 x 8 matrices of 16-bit values from shared memory. Lane l passes the 16-byte aligned
// address of row l % 8 of matrix l / 8; word i of a lane is (row g, cols 2t 2t+1) of matrix i.
__device__ inline void ldmatrix(std::uint32_t address, std::uint32_t (&to)[4]) {
#if GRAFT_HAS_MMA
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(address)
               : "memory");
#endif
}

__device__ inline void ldmatrix(const std::uint16_t* row, std::uint32_t (&to)[4]) {
  ldmatrix(shared_address(row), to);
}

// ldmatrix with each matrix transposed: word i is (rows 2t 2t+1, col g).
__device__ inline void ldmatrix_transposed(std::uint32_t address, std::uint32_t (&to)[4]) {
#if GRAFT_HAS_MMA
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(address)
               : "memory");
#endif
}

__device__ inline void ldmatrix_transposed(const std::uint16_t* row, std::uint32_t (&to)[4]) {
  ldmatrix_transposed(shared_address(row), to);
}

__device__ inline void store_shared(std::uint32_t address, std::uint32_t word) {
  asm volatile("st.shared.b32 [%0], %1;" ::"r"(address), "r"(word) : "memory");
}

__device__ inline void store_shared(std::uint32_t address, uint4 words) {
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(words.x),
               "r"(words.y), "r"(words.z), "r"(words.w)
               : "memory");
}

__device__ inline std::uint32_t load_shared(std::uint32_t address) {
  std::uint32_t word = 0;
  asm volatile("ld.shared.b32 %0, [%1];" : "=r"(word) : "r"(address) : "memory");
  return word;
}

__device__ inline uint2 load_shared_pair(std::uint32_t address) {
  uint2 words = {};
  asm volatile("ld.shared.v2.b32 {%0, %1}, [%2];"
               : "=r"(words.x), "=r"(words.y)
               : "r"(address)
               : "memory");
  return words;
}

__device__ inline __half load_shared_half(std::uint32_t address) {
  unsigned short bits = 0;
  asm volatile("ld.shared.u16 %0, [%1];" : "=h"(bits) : "r"(address) : "memory");
  return __ushort_as_half(bits);
}

// 2^x, with an error of 2 units in the last place; results below 2^-126 are 0.
__device__ inline float fast_exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// Copies 16 bytes from global to shared memory asynchronously. Complete after cp_async_wait for its
// group; other threads may read them after a barrier.
__device__ inline void cp_async_16(std::uint16_t* to, const std::uint16_t* from) {
#if GRAFT_HAS_MMA
  const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address), "l"(from) : "memory");
#endif
}

// cp_async_16, or 16 zero bytes; `from` is then not read.
__device__ inline void cp_async_16_or_zero(std::uint32_t to, const void* from, bool exists) {
#if GRAFT_HAS_MMA
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
               "r"(exists ? 16 : 0)
               : "memory");
#endif
}

// The same with 4 bytes.
__device__ inline void cp_async_4_or_zero(std::uint32_t to, const void* from, bool exists) {
#if GRAFT_HAS_MMA
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(from),
               "r"(exists ? 4 : 0)
               : "memory");
#endif
}

// Closes the group of this thread's copies since the last commit.
__device__ inline void cp_async_commit() {
#if GRAFT_HAS_MMA
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

// Waits until at most kGroups of this thread's latest groups are pending.
template <int kGroups>
__device__ void cp_async_wait() {
#if GRAFT_HAS_MMA
  asm volatile("cp.async.wait_group %0;" ::"n"(kGroups) : "memory");
#endif
}

}  // namespace graft::kernels::cuda
