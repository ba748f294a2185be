// The C interface that lists the GPUs before any operator is loaded (graft/tensor/cuda_abi.h).

#include <cstring>
#include <string>

#include <cuda_runtime.h>

#include "graft/base/text/str.h"
#include "graft/ops/cuda/runtime/runtime.h"
#include "graft/tensor/cuda_abi.h"

#define GRAFT_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

cudaError_t describe(int device, graft::cuda_abi::DeviceProperties& out) {
  cudaDeviceProp properties = {};
  if (const cudaError_t error = cudaGetDeviceProperties(&properties, device)) return error;
  if (const cudaError_t error = cudaSetDevice(device)) return error;
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  if (const cudaError_t error = cudaMemGetInfo(&free_bytes, &total_bytes)) return error;
  std::memcpy(out.name, properties.name, sizeof(out.name));
  out.compute_major = properties.major;
  out.compute_minor = properties.minor;
  out.num_multiprocessors = properties.multiProcessorCount;
  out.total_bytes = total_bytes;
  out.free_bytes = free_bytes;
  return cudaSuccess;
}

// The runtime returns the same error for a missing driver and for one that is too old.
const char* driver_text() {
  static const std::string text = [] {
    constexpr int kMajor = CUDART_VERSION / 1000;
    constexpr int kMinor = CUDART_VERSION % 1000 / 10;
    constexpr int kDriver = kMajor >= 13 ? 580 : 525;
    const std::string wanted = graft::str("install NVIDIA's driver ", kDriver,
                                          " or newer, for CUDA ", kMajor, ".", kMinor);
    int version = 0;
    cudaDriverGetVersion(&version);
    if (version == 0) return "no NVIDIA driver (libcuda.so.1) found: " + wanted;
    return graft::str("the driver supports CUDA up to ", version / 1000, ".", version % 1000 / 10,
                      ": ", wanted);
  }();
  return text.c_str();
}

}  // namespace

GRAFT_EXPORT std::int32_t graft_cuda_abi_version() {
  return graft::cuda_abi::kAbiVersion;
}

GRAFT_EXPORT std::int32_t graft_cuda_device_count(std::int32_t* count) {
  *count = graft::ops::cuda::num_cuda_devices();
  int real = 0;  // unused: the error code says why there is no GPU
  return *count > 0 ? cudaSuccess : cudaGetDeviceCount(&real);
}

GRAFT_EXPORT std::int32_t graft_cuda_device_properties(
    std::int32_t device, graft::cuda_abi::DeviceProperties* properties) {
  *properties = {};
  return describe(graft::ops::cuda::physical_gpu(device), *properties);
}

GRAFT_EXPORT const char* graft_cuda_error_text(std::int32_t error) {
  if (error == cudaErrorInsufficientDriver) return driver_text();
  return cudaGetErrorString(static_cast<cudaError_t>(error));
}
