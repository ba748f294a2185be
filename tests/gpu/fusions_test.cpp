// The fusions of GPUs that plans know without libgraft_cuda.so are those that it has.

#include "graft/ops/fusions.h"

#include <gtest/gtest.h>

#include "graft/kernels/cuda/linear/linear.h"

namespace graft::ops {
namespace {

TEST(CudaFusions, Int8TypesAreThoseOfTheKernels) {
  for (const DTypeInfo& type : kDTypes)
    EXPECT_EQ(has_cuda_int8_kernel(type.type), kernels::cuda::has_gemv_q8(type.type)) << type.name;
}

}  // namespace
}  // namespace graft::ops
