// DeepSeek-V4 as published (FP8 with E8M0 scales, FP4 experts) against the same values in F32.

#include "graft/testing/checkpoints/published_v4.h"

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "graft/base/system/temp_dir.h"
#include "graft/models/generate.h"
#include "graft/models/open_model.h"
#include "graft/models/weights/verify.h"
#include "graft/models/weights/weight_store.h"
#include "graft/testing/golden.h"
#include "graft/testing/near_logits.h"

namespace graft::models {
namespace {

using formats::test::PublishedV4;

constexpr int kNumPublishedTokens = 40;

std::vector<float> published_logits(const std::filesystem::path& folder, bool repack) {
  OpenModel open(
      folder,
      {.rules = std::string(kExactCacheRule), .num_threads = 2, .load = {.repack = repack}});
  std::vector<std::int32_t> prompt;
  for (std::int32_t i = 0; i < kNumPublishedTokens; ++i)
    prompt.push_back(3 + i * 7 % 300);
  return run_prompts(open.model(), {&prompt, 1}, {.chunk = 7}).front().logits;
}

TEST(PublishedDeepseekV4, ComputesWithTheStoredValues) {
  const TempDir folder;
  const PublishedV4 written(golden_checkpoint("deepseek-v4"), folder.path());
  ASSERT_EQ(written.num_fp4(), 4 * 8 * 3);
  // Five projections of attention and three of the shared expert per layer, and one indexer.
  ASSERT_EQ(written.num_fp8(), 4 * 8 + 1);
  const std::vector<float> want = published_logits(written.floats(), false);
  EXPECT_LT(testing::relative_error(published_logits(written.published(), false), want), 1e-5);
}

TEST(PublishedDeepseekV4, KeepsTheBits) {
  const TempDir folder;
  const PublishedV4 written(golden_checkpoint("deepseek-v4"), folder.path());
  const auto published = open_checkpoint(written.published());
  const auto floats = open_checkpoint(written.floats());
  const WeightStore store(*published);
  const WeightStore plain(*floats);
  const auto expect_same = [&](const std::string& name, DType dtype) {
    const ops::Weight weight = store.get(name);
    EXPECT_EQ(weight.dtype, dtype) << name;
    EXPECT_EQ(weight.decode(), plain.get(name).decode()) << name;
  };
  expect_same("model.layers.1.mlp.experts.3.gate_proj.weight", DType::MXFP4);
  expect_same("model.layers.3.mlp.experts.7.down_proj.weight", DType::MXFP4);
  expect_same("model.layers.2.self_attn.q_b_proj.weight", DType::F8_E4M3);
  expect_same("model.layers.0.self_attn.o_a_proj.weight", DType::F8_E4M3);
  expect_same("model.layers.3.self_attn.compressor.indexer.q_b_proj.weight", DType::F8_E4M3);
  expect_same("model.layers.3.mlp.shared_experts.up_proj.weight", DType::F8_E4M3);
  expect_same("model.hc_head.hc_fn", DType::BF16);
}

}  // namespace
}  // namespace graft::models
