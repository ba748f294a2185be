// The one way kernels are started, and the one place their errors are looked at.

#pragma once

#include <cstddef>
#include <cstdint>

#include <cuda_runtime.h>

#include "graft/base/error.h"
#include "graft/kernels/cuda/errors.h"
#include "graft/kernels/cuda/stream.h"

#define GRAFT_UNROLL _Pragma("unroll")
// Four at a time: for loads that would take too many registers all at once.
#define GRAFT_UNROLL_4 _Pragma("unroll 4")

// All kernels with shared memory of a size known at the launch use this one array.
extern __shared__ __align__(128) unsigned char graft_dynamic_shared[];

namespace graft::kernels::cuda {

inline constexpr int kWarp = 32;
inline constexpr unsigned kAllLanes = 0xffffffffU;

// Throws Error when the launch failed. A debug build also waits, so that what fails inside a kernel
// is reported under that kernel's name; not while a graph is captured, when nothing runs.
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

struct LaunchShape {
  dim3 grid;
  dim3 block;
  std::size_t shared_bytes = 0;
};

// Nothing happens when the grid is empty.
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
  check_launch(name, cudaLaunchKernelEx(&config, kernel, static_cast<Params>(args)...), stream);
}

// The same for kernels that may need more shared memory than they get without asking.
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

// What a block of the present GPU can ask for.
inline std::size_t max_shared_bytes() {
  int device = 0;
  int bytes = 48 << 10;
  if (cudaGetDevice(&device) == cudaSuccess) {
    cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  }
  return static_cast<std::size_t>(bytes);
}

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

// Blocks of so many threads for so many items, one item per thread.
constexpr unsigned blocks_for(std::int64_t items, std::int64_t threads) {
  return static_cast<unsigned>(ceil_div(items, threads));
}

// Whether the code of a kernel that the driver runs on the present GPU was compiled for this
// capability (80: sm_80) or a later one. A build for older GPUs runs on newer ones too, with the
// code of the older.
template <class... Params>
bool is_compiled_for(int capability, void (*kernel)(Params...)) {
  cudaFuncAttributes attributes = {};
  const cudaError_t error = cudaFuncGetAttributes(&attributes, kernel);
  return error == cudaSuccess && attributes.ptxVersion >= capability;
}

template <class T>
__device__ T* dynamic_shared() {
  return reinterpret_cast<T*>(graft_dynamic_shared);
}

__device__ inline std::int64_t global_thread() {
  return static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}

// Sums and maxima over a warp: every lane gets the same bits, whatever else runs.
__device__ inline float warp_sum(float value) {
  GRAFT_UNROLL
  for (int step = kWarp / 2; step > 0; step /= 2)
    value += __shfl_xor_sync(kAllLanes, value, step);
  return value;
}

__device__ inline float warp_max(float value) {
  GRAFT_UNROLL
  for (int step = kWarp / 2; step > 0; step /= 2)
    value = fmaxf(value, __shfl_xor_sync(kAllLanes, value, step));
  return value;
}

// Over a block of whole warps (at most 32), the warps in ascending order. All threads must call.
__device__ inline float block_sum(float value) {
  __shared__ float parts[kWarp];
  value = warp_sum(value);
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int num_warps = static_cast<int>(blockDim.x) / kWarp;
  __syncthreads();  // the parts of an earlier sum have been read
  if (threadIdx.x % kWarp == 0) parts[warp] = value;
  __syncthreads();
  float total = 0.0F;
  for (int i = 0; i < num_warps; ++i)
    total += parts[i];
  return total;
}

}  // namespace graft::kernels::cuda
