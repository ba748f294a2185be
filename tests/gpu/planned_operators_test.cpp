// The operators that are planned without libgraft_cuda.so are those that it registers.

#include <gtest/gtest.h>

#include "graft/ops/cuda/operators.h"
#include "graft/ops/cuda/runtime.h"
#include "graft/plan/cuda_operators.h"

namespace graft::plan {
namespace {

TEST(PlannedOperators, AreThoseOfTheCudaLibrary) {
  if (ops::cuda::num_cuda_devices() == 0) GTEST_SKIP() << "no GPU";
  ops::Registry library;
  ops::cuda::register_cuda(library);
  ops::Registry planned;
  add_planned_cuda_operators(planned);
  ASSERT_EQ(planned.all().size(), library.all().size());
  for (std::size_t i = 0; i < library.all().size(); ++i) {
    const ops::OperatorInfo& want = *library.all()[i];
    const ops::OperatorInfo& got = *planned.all()[i];
    EXPECT_EQ(got.name, want.name);
    EXPECT_EQ(got.role, want.role) << want.name;
    EXPECT_EQ(got.kwargs, want.kwargs) << want.name;
    EXPECT_EQ(got.is_native, want.is_native) << want.name;
    EXPECT_EQ(static_cast<bool>(got.fits), static_cast<bool>(want.fits)) << want.name;
  }
}

}  // namespace
}  // namespace graft::plan
