// For tests on GPUs: rules with several GPUs on a machine with one, and machines without.

#pragma once

#include <cstdlib>
#include <string_view>

#include "graft/ops/cuda/runtime/runtime.h"

namespace graft::ops::testing {

// As many as any rule file of the tests names. Call it before the first use of a GPU.
inline void use_virtual_gpus() {
  ::setenv("GRAFT_VIRTUAL_GPUS", "8", 0);
}

inline bool is_gpu_required() {
  const char* value = std::getenv("GRAFT_REQUIRE_GPU");
  return value != nullptr && std::string_view(value) == "1";
}

}  // namespace graft::ops::testing

// In SetUp() of a test that needs a GPU; needs <gtest/gtest.h>.
#define GRAFT_REQUIRE_GPU()                                           \
  do {                                                                \
    if (::graft::ops::cuda::num_cuda_devices() > 0) break;            \
    if (::graft::ops::testing::is_gpu_required()) FAIL() << "no GPU"; \
    GTEST_SKIP() << "no GPU";                                         \
  } while (false)
