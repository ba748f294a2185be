#include "graft/kernels/cuda/errors.h"

#include <gtest/gtest.h>

namespace graft::kernels::cuda {
namespace {

// Needs no GPU: it is about words.
TEST(CudaErrors, WhoLosesTheGpuIsTold) {
  EXPECT_EQ(error_text(cudaErrorIllegalAddress),
            "an illegal memory access was encountered; this program can use the GPU no more, start "
            "it again");
  EXPECT_EQ(error_text(cudaErrorMemoryAllocation), "out of memory");
  EXPECT_TRUE(is_lasting(cudaErrorLaunchFailure));
  EXPECT_FALSE(is_lasting(cudaErrorInvalidConfiguration));
}

}  // namespace
}  // namespace graft::kernels::cuda
