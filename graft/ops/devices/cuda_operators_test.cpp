#include "graft/ops/devices/cuda_operators.h"

#include <algorithm>
#include <string_view>

#include <gtest/gtest.h>

namespace graft::ops {
namespace {

TEST(CudaOperators, ImplementEveryRoleOfTheCpu) {
  const Registry registry = builtin_operators();
  for (const OperatorInfo* cpu : registry.all()) {
    EXPECT_TRUE(std::ranges::any_of(cuda_operators(), [&](const OperatorInfo& info) {
      return info.role == cpu->role;
    })) << cpu->name;
  }
}

TEST(CudaOperators, AttentionIsChosenByItsParams) {
  const auto name_of = [](const Params& params) -> std::string_view {
    const auto found = std::ranges::find_if(cuda_operators(), [&](const OperatorInfo& info) {
      return info.role == Role::Attention && info.supports(params);
    });
    return found == cuda_operators().end() ? "" : std::string_view(found->name);
  };
  EXPECT_EQ(name_of(AttentionParams{}), "cuda.attention");
  EXPECT_EQ(name_of(MlaParams{}), "cuda.mla");
  EXPECT_EQ(name_of(CompressedAttentionParams{}), "cuda.compressed_attention");
}

}  // namespace
}  // namespace graft::ops
