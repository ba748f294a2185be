#include "graft/models/build/rope.h"

#include <array>
#include <cmath>

#include <gtest/gtest.h>

namespace graft::models {
namespace {

ModelConfig plain(std::int64_t rotary_dim = 8) {
  ModelConfig config;
  config.rotary_dim = rotary_dim;
  config.max_position_embeddings = 64;
  return config;
}

TEST(Rope, DefaultIsPowersOfTheta) {
  const ops::RopeParams rope = make_rope(plain(4), {});
  ASSERT_EQ(rope.inv_freq.size(), 2U);
  EXPECT_FLOAT_EQ(rope.inv_freq[0], 1.0F);
  EXPECT_FLOAT_EQ(rope.inv_freq[1], 0.01F);
  EXPECT_EQ(rope.magnitude, 1.0F);
  EXPECT_FALSE(rope.dynamic);
}

TEST(Rope, LinearDividesAll) {
  ModelConfig config = plain(4);
  config.rope.kind = RopeKind::Linear;
  config.rope.factor = 4.0;
  const ops::RopeParams rope = make_rope(config, {});
  EXPECT_FLOAT_EQ(rope.inv_freq[0], 0.25F);
  EXPECT_FLOAT_EQ(rope.inv_freq[1], 0.0025F);
}

TEST(Rope, Llama3ScalesLowFrequencies) {
  ModelConfig config = plain(128);
  config.rope.theta = 500000.0;
  config.rope.kind = RopeKind::Llama3;
  config.rope.factor = 8.0;
  config.rope.original_max_position_embeddings = 8192;
  const ops::RopeParams rope = make_rope(config, {});
  EXPECT_FLOAT_EQ(rope.inv_freq.front(), 1.0F);
  EXPECT_FLOAT_EQ(rope.inv_freq.back(),
                  static_cast<float>(std::pow(500000.0, -126.0 / 128.0) / 8.0));
}

TEST(Rope, YarnScalesLowFrequencies) {
  ModelConfig config = plain(64);
  config.rope.kind = RopeKind::Yarn;
  config.rope.factor = 40.0;
  config.rope.original_max_position_embeddings = 4096;
  const ops::RopeParams rope = make_rope(config, {});
  // DeepSeek-V3's values: the ramp is from pair 10 to pair 23.
  EXPECT_FLOAT_EQ(rope.inv_freq[10], static_cast<float>(std::pow(10000.0, -20.0 / 64.0)));
  EXPECT_LT(rope.inv_freq[11], static_cast<float>(std::pow(10000.0, -22.0 / 64.0)));
  EXPECT_FLOAT_EQ(rope.inv_freq[23], static_cast<float>(std::pow(10000.0, -46.0 / 64.0) / 40.0));
  EXPECT_FLOAT_EQ(rope.magnitude, static_cast<float>(0.1 * std::log(40.0) + 1.0));
}

TEST(Rope, YarnMagnitudeFollowsTheConfig) {
  ModelConfig config = plain(64);
  config.rope.kind = RopeKind::Yarn;
  config.rope.factor = 40.0;
  config.rope.original_max_position_embeddings = 4096;
  config.rope.mscale = 1.0;
  config.rope.mscale_all_dim = 1.0;
  EXPECT_EQ(make_rope(config, {}).magnitude, 1.0F);
  config.rope.attention_factor = 1.5;
  EXPECT_EQ(make_rope(config, {}).magnitude, 1.5F);
}

TEST(Rope, DynamicPassesItsParametersToTheOperator) {
  ModelConfig config = plain();
  config.rope.kind = RopeKind::Dynamic;
  config.rope.factor = 2.0;
  const ops::RopeParams rope = make_rope(config, {});
  EXPECT_TRUE(rope.dynamic);
  EXPECT_EQ(rope.factor, 2.0);
  EXPECT_EQ(rope.max_position_embeddings, 64);
}

TEST(Rope, DividesByTheFactorsOfAGgufFile) {
  constexpr std::array<float, 2> kFactors = {1.0F, 8.0F};
  const ops::RopeParams rope = make_rope(plain(4), kFactors);
  EXPECT_FLOAT_EQ(rope.inv_freq[0], 1.0F);
  EXPECT_FLOAT_EQ(rope.inv_freq[1], 0.00125F);
}

}  // namespace
}  // namespace graft::models
