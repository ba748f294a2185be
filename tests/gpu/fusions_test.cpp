// The fusions of GPUs that plans know without libgraft_cuda.so are those that it has.

#include "graft/ops/fusions.h"

#include <gtest/gtest.h>

#include "graft/kernels/cuda/formats/pack_panels.h"

namespace graft::ops {
namespace {

TEST(CudaFusions, PanelTypesAreThoseOfTheKernels) {
  for (const DTypeInfo& type : kDTypes)
    EXPECT_EQ(has_cuda_panels(type.type), kernels::cuda::has_panels(type.type)) << type.name;
}

}  // namespace
}  // namespace graft::ops
