// Kernel launch with error check, and device functions that every kernel uses.

#pragma once

#include <cstddef>
#include <cstdint>

#include <cuda_runtime.h>

#include "graft/base/error.h"
#include "graft/kernels/cuda/errors.h"
#include "graft/kernels/cuda/stream.h"

#define GRAFT_UNROLL _Pragma("unroll")
// Unrolls by 4, for loads that would need too many registers when fully unrolled.
#define GRAFT_UNROLL_4 _Pragma("unroll 4")

// Dynamic shared memory of all kernels.
extern __shared__ __align__(128) unsigned char graft_dynamic_shared[];

namespace graft::kernels::cuda {

inline constexpr int kWarpSize = 32;
inline constexpr unsigned kAllLanes = 0xffffffffU;

// Throws Error when the launch failed. A debug build also synchronizes, so that an error inside a
// kernel is reported with its name; not during graph capture, where synchronizing is an error.
inline void check_launch(const char* kernel, cudaError_t error, [[maybe_unused]] Stream stream) {
  const cudaError_t last = cudaGetLastError();
  if (error == cudaSuccess) error = last;
#ifndef NDEBUG
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  if (error == cudaSuccess) error = cudaStreamIsCapturing(stream, &status);
  if (error == cudaSuccess && status == cudaStreamCaptureStatusNone) {
    error = cudaStreamSynchronize(stream);
  }
#endif
  if (error != cudaSuccess) fail("CUDA kernel ", kernel, ": ", error_text(error));
}

// Whether kernels are launched ahead: placed on the GPU while the one before still runs, to wait in
// begin_kernel() for its end. From sm_90 on, in graphs only: the large kernels of prefill, placed
// beside a running one, get the shared memory that a multiprocessor is set up for at the moment,
// hence fewer thread blocks than fit, until they end.
bool launches_ahead(Stream stream);

struct LaunchShape {
  dim3 grid;
  dim3 block;
  std::size_t shared_bytes = 0;
  unsigned cluster = 1;  // thread blocks in x that share their shared memory (sm_90)
};

// Skips the launch when the grid is empty.
template <class... Params, class... Args>
void launch(const char* name,
            void (*kernel)(Params...),
            const LaunchShape& shape,
            Stream stream,
            const Args&... args) {
  if (shape.grid.x == 0 || shape.grid.y == 0 || shape.grid.z == 0) return;
  cudaLaunchConfig_t config = {};
  config.gridDim = shape.grid;
  config.blockDim = shape.block;
  config.dynamicSmemBytes = shape.shared_bytes;
  config.stream = stream;
  cudaLaunchAttribute attributes[2] = {};
  config.attrs = attributes;
  if (launches_ahead(stream)) {
    cudaLaunchAttribute& ahead = attributes[config.numAttrs++];
    ahead.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    ahead.val.programmaticStreamSerializationAllowed = 1;
  }
  if (shape.cluster > 1) {
    cudaLaunchAttribute& cluster = attributes[config.numAttrs++];
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim = {shape.cluster, 1, 1};
  }
  check_launch(name, cudaLaunchKernelEx(&config, kernel, static_cast<Params>(args)...), stream);
}

// launch() for kernels that may need more dynamic shared memory than the default 48 KiB.
template <class... Params, class... Args>
void launch_with_shared(const char* name,
                        void (*kernel)(Params...),
                        const LaunchShape& shape,
                        Stream stream,
                        const Args&... args) {
  check_launch(name,
               cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    static_cast<int>(shape.shared_bytes)),
               stream);
  launch(name, kernel, shape, stream, args...);
}

// Maximum dynamic shared memory of a block on the current device, in bytes.
inline std::size_t max_shared_bytes() {
  int device = 0;
  int bytes = 48 << 10;
  if (cudaGetDevice(&device) == cudaSuccess) {
    cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  }
  return static_cast<std::size_t>(bytes);
}

// Of the current device: 90 is sm_90; 0: unknown.
inline int device_capability() {
  int device = 0;
  int major = 0;
  int minor = 0;
  if (cudaGetDevice(&device) != cudaSuccess ||
      cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) != cudaSuccess ||
      cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device) != cudaSuccess)
    return 0;
  return 10 * major + minor;
}

// Of the current device.
inline int num_multiprocessors() {
  int device = 0;
  int count = 0;
  if (cudaGetDevice(&device) != cudaSuccess ||
      cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device) != cudaSuccess)
    return 1;
  return count;
}

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

// Number of blocks of `threads` threads that cover `items`, one item per thread.
constexpr unsigned blocks_for(std::int64_t items, std::int64_t threads) {
  return static_cast<unsigned>(ceil_div(items, threads));
}

// Whether the code of the kernel that the driver selects for the current device was compiled for
// this compute capability (80: sm_80) or a later one. A build for older GPUs also runs on newer
// ones, but with the older code.
template <class... Params>
bool is_compiled_for(int capability, void (*kernel)(Params...)) {
  cudaFuncAttributes attributes = {};
  const cudaError_t error = cudaFuncGetAttributes(&attributes, kernel);
  return error == cudaSuccess && attributes.ptxVersion >= capability;
}

// Returns when the kernels before this one have ended and their results are visible. Before it, a
// kernel may read nothing but its arguments and weights, and write nothing. Then the next kernel of
// the stream may be placed on the GPU; earlier, a chain of waiting kernels would take the room of
// those that run.
//
// Every kernel calls it, in every thread, before any return: launch() relies on it.
__device__ inline void begin_kernel() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
#ifdef GRAFT_KERNEL_DELAYS
  // Up to 16 us: the next kernel sees results too early if it does not wait.
  __nanosleep((blockIdx.x + 31 * blockIdx.y + clock()) * 2654435761U >> 18);
#endif
}

// Only a hint: fetches a line into the L2 cache.
__device__ inline void prefetch_l2(const void* line) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(line));
}

template <class T>
__device__ T* dynamic_shared() {
  return reinterpret_cast<T*>(graft_dynamic_shared);
}

__device__ inline std::int64_t global_thread() {
  return static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}

// Butterfly reductions over a warp: every lane gets the same bits, and the order is fixed.
__device__ inline float warp_sum(float value) {
  GRAFT_UNROLL
  for (int step = kWarpSize / 2; step > 0; step /= 2)
    value += __shfl_xor_sync(kAllLanes, value, step);
  return value;
}

__device__ inline float warp_max(float value) {
  GRAFT_UNROLL
  for (int step = kWarpSize / 2; step > 0; step /= 2)
    value = fmaxf(value, __shfl_xor_sync(kAllLanes, value, step));
  return value;
}

// Sum over a block of at most 32 full warps, in ascending warp order. All threads must call it.
__device__ inline float block_sum(float value) {
  __shared__ float warp_sums[kWarpSize];
  value = warp_sum(value);
  const int warp = static_cast<int>(threadIdx.x) / kWarpSize;
  const int num_warps = static_cast<int>(blockDim.x) / kWarpSize;
  __syncthreads();  // an earlier call has read warp_sums
  if (threadIdx.x % kWarpSize == 0) warp_sums[warp] = value;
  __syncthreads();
  float total = 0.0F;
  for (int i = 0; i < num_warps; ++i)
    total += warp_sums[i];
  return total;
}

}  // namespace graft::kernels::cuda
