// KTransformers' rule files run on GPUs, with experts streamed in long prefill passes.

#include <filesystem>
#include <iostream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "graft/ops/cuda/operators.h"
#include "graft/testing/cuda/virtual_gpus.h"
#include "graft/testing/far_tokens.h"
#include "graft/testing/ktransformers_run.h"

namespace graft::models {
namespace {

using testing::PlacedModel;

class GpuKTransformersRules : public ::testing::TestWithParam<KTransformersFile> {
 protected:
  static void SetUpTestSuite() { ops::testing::use_virtual_gpus(); }
  void SetUp() override { GRAFT_REQUIRE_GPU(); }
};

// "Golden" in its name keeps it, as other tests of whole models, from compute-sanitizer (./dev).
TEST_P(GpuKTransformersRules, GoldenLogitsAreClose) {
  const std::filesystem::path folder = golden_checkpoint(GetParam().checkpoint);
  PlacedModel here(folder, testing::kExactCpu, ops::cuda::register_cuda);
  PlacedModel there(folder, ktransformers_rules(GetParam(), testing::kGoldenLayers),
                    ops::cuda::register_cuda, testing::kKTransformersGpus);
  ASSERT_TRUE(there.ok()) << there.findings();
  const auto vocab_size = static_cast<std::size_t>(here.model().vocab_size());
  const auto want = testing::logits_of_all_passes(here.model(), folder);
  const auto got = testing::logits_of_all_passes(there.model(), folder);
  ASSERT_EQ(got.size(), want.size());
  testing::FarTokens tokens;
  for (std::size_t i = 0; i < want.size(); ++i)
    tokens.add(want[i], got[i], vocab_size);
  std::cout << GetParam().name << ": " << tokens.num_far << " of " << tokens.num_tokens
            << " tokens are far\n";
  const bool has_experts = here.plan().blueprint->expert_share < 1;
  EXPECT_LE(tokens.num_far, tokens.max_far(has_experts, here.model().has_states()));
}

INSTANTIATE_TEST_SUITE_P(Files,
                         GpuKTransformersRules,
                         ::testing::ValuesIn(ktransformers_files().begin(),
                                             ktransformers_files().end()),
                         [](const auto& test) { return testing::test_name_of(test.param); });

}  // namespace
}  // namespace graft::models
