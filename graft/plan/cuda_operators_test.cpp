#include "graft/plan/cuda_operators.h"

#include <gtest/gtest.h>

namespace graft::plan {
namespace {

TEST(CudaOperators, EveryRoleThatComputesHasADefault) {
  ops::Registry registry = ops::builtin_operators();
  add_planned_cuda_operators(registry);
  for (const ops::OperatorInfo* cpu : registry.all()) {
    if (cpu->device != DeviceType::Cpu) continue;
    bool found = false;
    for (const ops::OperatorInfo* op : registry.of_role(cpu->role))
      found = found || op->device == DeviceType::Cuda;
    EXPECT_TRUE(found) << cpu->name;
  }
}

TEST(CudaOperators, AttentionIsChosenByItsKind) {
  ops::Registry registry;
  add_planned_cuda_operators(registry);
  const ops::Params gqa = ops::AttentionParams{};
  const ops::Params mla = ops::MlaParams{};
  const auto name_of = [&](const ops::Params& params) {
    return registry.default_for(ops::Role::Attention, DeviceType::Cuda, params)->name;
  };
  EXPECT_EQ(name_of(gqa), "cuda.attention");
  EXPECT_EQ(name_of(mla), "cuda.mla");
}

}  // namespace
}  // namespace graft::plan
