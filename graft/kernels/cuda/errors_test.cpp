#include "graft/kernels/cuda/errors.h"

#include <gtest/gtest.h>

namespace graft::kernels::cuda {
namespace {

// Needs no GPU.
TEST(CudaErrors, StickyErrorsRequireARestart) {
  EXPECT_EQ(error_text(cudaErrorIllegalAddress),
            "an illegal memory access was encountered; the CUDA context is lost, restart the "
            "process");
  EXPECT_EQ(error_text(cudaErrorMemoryAllocation), "out of memory");
  EXPECT_TRUE(is_sticky(cudaErrorLaunchFailure));
  EXPECT_FALSE(is_sticky(cudaErrorInvalidConfiguration));
}

}  // namespace
}  // namespace graft::kernels::cuda
