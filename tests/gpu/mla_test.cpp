// The form in which latent attention computes a sequence on a GPU.

#include <gtest/gtest.h>

#include "graft/ops/cuda/attention/mla_runs.h"

namespace graft::ops::cuda {
namespace {

constexpr kernels::cuda::MlaShape kDeepSeekV3 = {
    .num_heads = 128, .rank = 512, .nope = 128, .rope = 64, .value = 128};

TEST(MlaForms, PromptsAreExpanded) {
  for (const std::int64_t tokens : {2, 100, 4096, 100'000})
    EXPECT_TRUE(is_expanded_cheaper(kDeepSeekV3, tokens, tokens)) << tokens;
}

// Expanding a position costs as much as 171 absorbed tokens save on it.
TEST(MlaForms, ShortChunksAfterLongPrefixesAreAbsorbed) {
  EXPECT_FALSE(is_expanded_cheaper(kDeepSeekV3, 2, 100));
  EXPECT_FALSE(is_expanded_cheaper(kDeepSeekV3, 160, 100'000));
  EXPECT_TRUE(is_expanded_cheaper(kDeepSeekV3, 180, 100'000));
  EXPECT_TRUE(is_expanded_cheaper(kDeepSeekV3, 4000, 8000));
}

TEST(MlaForms, SmallRanksAreAbsorbed) {
  const kernels::cuda::MlaShape shape = {
      .num_heads = 4, .rank = 32, .nope = 64, .rope = 16, .value = 64};
  EXPECT_FALSE(is_expanded_cheaper(shape, 1000, 1000));
}

}  // namespace
}  // namespace graft::ops::cuda
