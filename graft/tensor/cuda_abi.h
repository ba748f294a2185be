// What libgraft_cuda.so offers to the program: plain C names, looked up at run time. The version
// is compared before anything else is called; change it when a declaration below changes.

#pragma once

#include <cstddef>
#include <cstdint>

namespace graft::cuda_abi {

inline constexpr std::int32_t kAbiVersion = 1;

struct DeviceProperties {
  char name[256];  // ends with a zero
  std::int32_t compute_major;
  std::int32_t compute_minor;
  std::int32_t num_multiprocessors;
  std::uint64_t total_bytes;
  std::uint64_t free_bytes;
};

// Each returns a cudaError_t as a number, 0 for success.
using AbiVersionFn = std::int32_t();
using DeviceCountFn = std::int32_t(std::int32_t* count);
using DevicePropertiesFn = std::int32_t(std::int32_t device, DeviceProperties* properties);
using ErrorTextFn = const char*(std::int32_t error);

}  // namespace graft::cuda_abi
