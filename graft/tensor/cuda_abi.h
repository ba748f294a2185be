// C ABI of libgraft_cuda.so, whose symbols are looked up at run time with dlsym. The version is
// compared before any other call; increment it when a declaration below changes.

#pragma once

#include <cstddef>
#include <cstdint>

namespace graft::cuda_abi {

inline constexpr std::int32_t kAbiVersion = 1;

struct DeviceProperties {
  char name[256];  // null-terminated
  std::int32_t compute_major;
  std::int32_t compute_minor;
  std::int32_t num_multiprocessors;
  std::uint64_t total_bytes;
  std::uint64_t free_bytes;
};

// Functions that return an error return a cudaError_t, 0 for success.
using AbiVersionFn = std::int32_t();
using DeviceCountFn = std::int32_t(std::int32_t* count);
using DevicePropertiesFn = std::int32_t(std::int32_t device, DeviceProperties* properties);
using ErrorTextFn = const char*(std::int32_t error);

}  // namespace graft::cuda_abi
