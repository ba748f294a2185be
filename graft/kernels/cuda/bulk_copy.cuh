// Bulk copies from global to shared memory by the copy engine of sm_90, and the barriers they
// complete. Code for older GPUs is empty and not called. Addresses are those of shared memory.

#pragma once

#include "graft/kernels/cuda/launch.cuh"

namespace graft::kernels::cuda {

__device__ inline std::uint32_t shared_address(const void* pointer) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(pointer));
}

// One thread: a barrier that completes a phase after `count` arrivals and all expected bytes. Then
// one thread calls publish_barriers().
__device__ inline void init_barrier(std::uint32_t barrier, int count) {
#if __CUDA_ARCH__ >= 900
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(barrier), "r"(count) : "memory");
#endif
}

__device__ inline void publish_barriers() {
#if __CUDA_ARCH__ >= 900
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

__device__ inline void arrive(std::uint32_t barrier) {
#if __CUDA_ARCH__ >= 900
  asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(barrier) : "memory");
#endif
}

// Arrives and announces the bytes of copies.
__device__ inline void arrive_expecting(std::uint32_t barrier, std::uint32_t bytes) {
#if __CUDA_ARCH__ >= 900
  asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
#endif
}

// Returns when phase number `phase` of the barrier has completed.
__device__ inline void wait_for_phase(std::uint32_t barrier, int phase) {
#if __CUDA_ARCH__ >= 900
  std::uint32_t is_done = 0;
  while (is_done == 0) {
    asm volatile(
        "{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
        : "=r"(is_done)
        : "r"(barrier), "r"(phase & 1)
        : "memory");
  }
#endif
}

// 16-byte aligned, a multiple of 16 bytes.
__device__ inline void bulk_copy(std::uint32_t to,
                                 const void* from,
                                 std::uint32_t bytes,
                                 std::uint32_t barrier) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(to),
      "l"(from), "r"(bytes), "r"(barrier)
      : "memory");
#endif
}

// Buffers of one warp in shared memory, filled ahead. Per turn k: wait(k), use of buffer k % kDepth
// by all lanes, __syncwarp(), then the parts of turn k + kDepth with expect() and fill().
template <int kDepth>
class CopyRing {
 public:
  // barriers: kDepth words of 8 bytes in shared memory, of this warp alone.
  __device__ explicit CopyRing(std::uint64_t* barriers) : barriers_(shared_address(barriers)) {
    if (is_first_lane()) {
      for (int i = 0; i < kDepth; ++i)
        init_barrier(barrier(i), 1);
      publish_barriers();
    }
    __syncwarp();
  }

  // What fill() will copy for turn k, in all parts together.
  __device__ void expect(int k, std::uint32_t bytes) {
    if (is_first_lane() && bytes > 0) arrive_expecting(barrier(k), bytes);
  }
  __device__ void fill(int k, void* to, const void* from, std::uint32_t bytes) {
    if (is_first_lane() && bytes > 0) bulk_copy(shared_address(to), from, bytes, barrier(k));
  }
  __device__ void wait(int k) { wait_for_phase(barrier(k), k / kDepth); }

 private:
  static __device__ bool is_first_lane() { return threadIdx.x % kWarpSize == 0; }
  __device__ std::uint32_t barrier(int k) const { return barriers_ + 8 * (k % kDepth); }

  std::uint32_t barriers_;
};

}  // namespace graft::kernels::cuda
