// Matrix instructions of a warpgroup (sm_90a): the four warps multiply 64 x 16 operands, 16 rows in
// the registers of each warp as in mma.m16n8k16, with 16 x kCols values in shared memory. They run
// while the warps go on: wgmma_begin(), products, wgmma_commit(), and wgmma_wait() before the sums
// are read or registers of operands are written again.

#pragma once

#include "graft/kernels/cuda/launch.cuh"

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define GRAFT_HAS_WGMMA 1
#else
#define GRAFT_HAS_WGMMA 0
#endif

namespace graft::kernels::cuda {

inline constexpr int kWarpgroupThreads = 4 * kWarpSize;
// A core matrix: 8 columns of 8 values of k, 16 bytes each, in shared memory one after another.
inline constexpr int kCoreBytes = 128;

// The registers of each thread of the warpgroup from here on: a kernel gives some of those that it
// is compiled for from one warpgroup to others. A multiple of 8.
template <int kRegisters>
__device__ void take_registers() {
#if GRAFT_HAS_WGMMA
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
#endif
}
template <int kRegisters>
__device__ void leave_registers() {
#if GRAFT_HAS_WGMMA
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
#endif
}

// Describes 16 x kCols values without swizzling: cores next to each other in k and in the columns
// are these bytes apart.
__device__ inline std::uint64_t wgmma_operand(std::uint32_t address,
                                              std::uint32_t k_stride,
                                              std::uint32_t column_stride) {
  const auto field = [](std::uint32_t bytes) {
    return static_cast<std::uint64_t>((bytes & 0x3ffffU) >> 4);
  };
  return field(address) | field(k_stride) << 16 | field(column_stride) << 32;
}

// Describes values in lines of 128 bytes whose 16-byte vectors are permuted: vector v of line r is
// at v ^ (r % 8). Lines hold consecutive k of a column (or row of a 64 x 16 operand), or, for
// transposed operands, consecutive columns of a k; 8 lines are 1024 bytes, which the matrix is
// aligned to. block_stride: from 64 columns to the next 64, of transposed operands.
__device__ inline std::uint64_t wgmma_permuted_operand(std::uint32_t address,
                                                       std::uint32_t block_stride) {
  return wgmma_operand(address, block_stride, 1024) | std::uint64_t{1} << 62;
}

// What other threads have written to shared memory with ordinary stores or cp.async, and this
// thread has waited for, is visible to its products from here on.
__device__ inline void fence_shared_for_wgmma() {
#if GRAFT_HAS_WGMMA
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

__device__ inline void wgmma_begin() {
#if GRAFT_HAS_WGMMA
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#endif
}

__device__ inline void wgmma_commit() {
#if GRAFT_HAS_WGMMA
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
#endif
}

// Returns when at most kPending groups are not complete.
template <int kPending>
__device__ void wgmma_wait() {
#if GRAFT_HAS_WGMMA
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
#endif
}

// sums (+)= a b; from 0 unless `adds`. sums[4 j ..]: columns 8 j + 2 t, 8 j + 2 t + 1 of rows g and
// g + 8.
#if GRAFT_HAS_WGMMA
#define GRAFT_SUMS_8(s, i)                                                                    \
  "+f"(s[i]), "+f"(s[i + 1]), "+f"(s[i + 2]), "+f"(s[i + 3]), "+f"(s[i + 4]), "+f"(s[i + 5]), \
      "+f"(s[i + 6]), "+f"(s[i + 7])
#endif

__device__ inline void wgmma(const std::uint32_t (&a)[4],
                             std::uint64_t b,
                             bool adds,
                             float (&s)[32]) {
#if GRAFT_HAS_WGMMA
  asm volatile(
      "{ .reg .pred p; setp.ne.b32 p, %37, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
      "{%32, %33, %34, %35}, %36, p, 1, 1, 0; }"
      : GRAFT_SUMS_8(s, 0), GRAFT_SUMS_8(s, 8), GRAFT_SUMS_8(s, 16), GRAFT_SUMS_8(s, 24)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(adds)));
#endif
}

__device__ inline void wgmma(const std::uint32_t (&a)[4],
                             std::uint64_t b,
                             bool adds,
                             float (&s)[16]) {
#if GRAFT_HAS_WGMMA
  asm volatile(
      "{ .reg .pred p; setp.ne.b32 p, %21, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n32k16.f32.f16.f16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, "
      "{%16, %17, %18, %19}, %20, p, 1, 1, 0; }"
      : GRAFT_SUMS_8(s, 0), GRAFT_SUMS_8(s, 8)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(adds)));
#endif
}

}  // namespace graft::kernels::cuda
