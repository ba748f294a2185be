// Every operator of a GPU against the reference on the CPU.

#include <cstdlib>
#include <iostream>
#include <string>

#include <gtest/gtest.h>

#include "graft/ops/cuda/operators.h"
#include "graft/ops/cuda/runtime/runtime.h"
#include "graft/testing/parity/parity.h"

namespace graft::ops::testing {
namespace {

bool is_gpu_required() {
  const char* value = std::getenv("GRAFT_REQUIRE_GPU");
  return value != nullptr && std::string(value) == "1";
}

class GpuOperatorParity : public ::testing::TestWithParam<Role> {
 protected:
  void SetUp() override {
    if (cuda::num_cuda_devices() > 0) return;
    if (is_gpu_required()) FAIL() << "no GPU";
    GTEST_SKIP() << "no GPU";
  }
};

TEST_P(GpuOperatorParity, MatchesTheReference) {
  Registry registry;  // without the operators of the CPU, which other tests check
  cuda::register_cuda(registry);
  const ParityReport report = check_role(registry, GetParam());
  for (const std::string& finding : report.findings)
    ADD_FAILURE() << finding;
  for (const OperatorInfo* op : registry.of_role(GetParam()))
    EXPECT_TRUE(report.by_operator.contains(op->name)) << "no case fits " << op->name;
  std::cout << report.text();
}

std::string test_name(const ::testing::TestParamInfo<Role>& info) {
  return std::string(name(info.param));
}

INSTANTIATE_TEST_SUITE_P(Roles, GpuOperatorParity, ::testing::ValuesIn(parity_roles()), test_name);

}  // namespace
}  // namespace graft::ops::testing
