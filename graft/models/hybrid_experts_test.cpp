// Experts in host memory that a device and the CPU compute together, against the CPU alone.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "graft/base/error.h"
#include "graft/base/text/str.h"
#include "graft/models/generate.h"
#include "graft/models/weights/verify.h"
#include "graft/ops/params.h"
#include "graft/testing/decoding.h"
#include "graft/testing/device.h"
#include "graft/testing/golden.h"
#include "graft/testing/near_logits.h"
#include "graft/testing/placement.h"
#include "graft/testing/test_names.h"

namespace graft::models {
namespace {

using ops::testing::add_test_devices;
using ops::testing::test_expert_counts;
using ops::testing::test_fault;
using testing::Decoding;
using testing::expect_near;
using testing::kCpuOnly;
using testing::PlacedModel;

constexpr std::int64_t kNeverStreamed = 65536;

std::string hybrid_rules(const std::string& gpu_experts, std::int64_t stream_from) {
  return str(R"yaml(
- match: {role: experts}
  replace:
    class: default
    kwargs: {generate_device: cpu, prefill_device: "cuda:0", gpu_experts: )yaml",
             gpu_experts, ", stream_from: ", stream_from, R"yaml(}
- match: {name: ".*"}
  replace: {class: default, kwargs: {device: "cuda:0"}}
)yaml");
}

std::string cpu_rules(const std::string& kwargs_of_experts) {
  return str(R"yaml(
- match: {role: experts}
  replace: {class: default, kwargs: {device: cpu, )yaml",
             kwargs_of_experts, "}}\n", kCpuOnly);
}

std::int64_t num_experts(const PlacedModel& placed) {
  for (const plan::Placement& placement : placed.plan().placements) {
    if (const auto* params = std::get_if<ops::ExpertsParams>(&placement.module->params))
      return params->num_experts;
  }
  return 0;
}

class HybridExperts : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override { test_expert_counts() = {}; }
  void TearDown() override { test_fault() = {}; }
  static std::filesystem::path folder() { return golden_checkpoint(GetParam()); }

  // 0, 1, half, all but one and all experts in slots.
  static std::vector<std::int64_t> slot_counts() {
    const PlacedModel placed(folder(), kCpuOnly, add_test_devices);
    const std::int64_t all = num_experts(placed);
    return {0, 1, all / 2, all - 1, all};
  }
};

TEST_P(HybridExperts, DecodeEqualsTheCpu) {
  PlacedModel here(folder(), kCpuOnly, add_test_devices);
  for (const std::int64_t num_slots : slot_counts()) {
    SCOPED_TRACE(num_slots);
    PlacedModel placed(folder(), hybrid_rules(std::to_string(num_slots), kNeverStreamed),
                       add_test_devices);
    ASSERT_EQ(placed.findings(), "");
    for (const std::int64_t num_sequences : {1, 9, 32}) {
      SCOPED_TRACE(num_sequences);
      const auto want = Decoding(here.model(), num_sequences).all_steps();
      placed.model().enforce_eager(true);
      const auto eager = Decoding(placed.model(), num_sequences).all_steps();
      expect_near(eager, want);
      placed.model().enforce_eager(false);
      expect_near(Decoding(placed.model(), num_sequences).all_steps(), want);
    }
    EXPECT_EQ(test_expert_counts().resident_pairs > 0, num_slots > 0);
    EXPECT_EQ(test_expert_counts().streamed_rows, 0);
    test_expert_counts() = {};
  }
}

// Prompts of which all experts cross, some, or none.
TEST_P(HybridExperts, PrefillEqualsTheCpu) {
  PlacedModel here(folder(), kCpuOnly, add_test_devices);
  TokenIds prompt;
  for (std::int32_t i = 0; i < 64; ++i)
    prompt.push_back(7 * i % static_cast<std::int32_t>(here.model().vocab_size()));
  const auto logits = [&](Model& model) {
    return run_prompts(model, {&prompt, 1}, {.chunk = 0}).front().logits;
  };
  const std::vector<float> want = logits(here.model());
  for (const std::int64_t num_slots : slot_counts()) {
    for (const std::int64_t stream_from : {std::int64_t{1}, std::int64_t{64}, kNeverStreamed}) {
      SCOPED_TRACE(str(num_slots, " slots, stream_from ", stream_from));
      PlacedModel placed(folder(), hybrid_rules(std::to_string(num_slots), stream_from),
                         add_test_devices);
      ASSERT_EQ(placed.findings(), "");
      test_expert_counts() = {};
      expect_near(logits(placed.model()), want);
      EXPECT_EQ(test_expert_counts().streamed_rows > 0, stream_from < kNeverStreamed);
    }
  }
}

// Slots get other experts while sequences decode, in captured graphs too.
TEST_P(HybridExperts, FollowTheRoutingWhileDecoding) {
  constexpr std::int64_t kSteps = 160;
  PlacedModel here(folder(), kCpuOnly, add_test_devices);
  PlacedModel placed(folder(), hybrid_rules("1", kNeverStreamed), add_test_devices);
  ASSERT_EQ(placed.findings(), "");
  Decoding want(here.model(), 4, kSteps);
  Decoding got(placed.model(), 4, kSteps);
  for (std::int64_t step = 0; step < kSteps; ++step) {
    SCOPED_TRACE(step);
    expect_near(got.step(step), want.step(step));
  }
  EXPECT_GT(test_expert_counts().fills, 0);
}

// The same experts are deferred wherever they run, in captured graphs too.
TEST_P(HybridExperts, DeferredExpertsEqualTheCpu) {
  PlacedModel exact(folder(), kCpuOnly, add_test_devices);
  PlacedModel here(folder(), cpu_rules("defer: 1"), add_test_devices);
  ASSERT_EQ(here.findings(), "");
  for (const std::int64_t num_sequences : {1, 9}) {
    SCOPED_TRACE(num_sequences);
    const auto want = Decoding(here.model(), num_sequences).all_steps();
    EXPECT_NE(want, Decoding(exact.model(), num_sequences).all_steps());
    PlacedModel placed(folder(), hybrid_rules("0, defer: 1", kNeverStreamed), add_test_devices);
    ASSERT_EQ(placed.findings(), "");
    placed.model().enforce_eager(true);
    const auto eager = Decoding(placed.model(), num_sequences).all_steps();
    expect_near(eager, want);
    placed.model().enforce_eager(false);
    EXPECT_EQ(Decoding(placed.model(), num_sequences).all_steps(), eager);
  }
}

TEST_P(HybridExperts, DeferralKeepsBatchInvarianceAndPrefill) {
  PlacedModel exact(folder(), kCpuOnly, add_test_devices);
  PlacedModel deferring(folder(), cpu_rules("defer: 1"), add_test_devices);
  const TokenIds prompt = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  const auto logits = [&](Model& model) {
    return run_prompts(model, {&prompt, 1}, {.chunk = 0}).front().logits;
  };
  EXPECT_EQ(logits(deferring.model()), logits(exact.model()));
  EXPECT_NE(deferring.model().cache_form(), exact.model().cache_form());
  const auto alone = Decoding(deferring.model(), 1).all_steps();
  const auto beside = Decoding(deferring.model(), 5).all_steps();
  for (std::size_t step = 0; step < alone.size(); ++step) {
    const std::vector<float>& row = alone[step];
    EXPECT_EQ(row,
              std::vector<float>(beside[step].begin(),
                                 beside[step].begin() + static_cast<std::ptrdiff_t>(row.size())));
  }
}

// A failed operation of the device ends its pass; later passes are right again.
TEST_P(HybridExperts, FailuresEndTheirPassOnly) {
  for (const char* kwargs : {"1", "0, defer: 1"}) {
    SCOPED_TRACE(kwargs);
    PlacedModel placed(folder(), hybrid_rules(kwargs, kNeverStreamed), add_test_devices);
    ASSERT_EQ(placed.findings(), "");
    const auto want = Decoding(placed.model(), 2).all_steps();
    for (const std::int64_t operation : {1, 7, 20, 40}) {
      Decoding decoding(placed.model(), 2);
      test_fault() = {.countdown = operation};
      EXPECT_THROW(for (int i = 0; i < 40; ++i) decoding.step(i % 5), Error);
      test_fault() = {};
      expect_near(Decoding(placed.model(), 2).all_steps(), want);
    }
  }
}

// The same for each operation of a prompt whose experts are copied, the CPU computing some of them.
TEST_P(HybridExperts, FailuresOfStreamedPromptsEndTheirPassOnly) {
  PlacedModel placed(folder(), hybrid_rules("1", 64), add_test_devices);
  ASSERT_EQ(placed.findings(), "");
  TokenIds prompt;
  for (std::int32_t i = 0; i < 64; ++i)
    prompt.push_back(7 * i % static_cast<std::int32_t>(placed.model().vocab_size()));
  const auto logits = [&] {
    return run_prompts(placed.model(), {&prompt, 1}, {.chunk = 0}).front().logits;
  };
  const std::vector<float> want = logits();
  ASSERT_GT(test_expert_counts().streamed_rows, 0);
  std::int64_t num_failures = 0;
  for (std::int64_t operation = 1;; operation += 5, ++num_failures) {
    SCOPED_TRACE(operation);
    test_fault() = {.countdown = operation};
    try {
      logits();
    } catch (const Error& error) {
      EXPECT_STREQ(error.what(), "cuda:0: broken for a test");
      test_fault() = {};
      expect_near(logits(), want);
      continue;
    }
    break;
  }
  EXPECT_GT(num_failures, 5);
}

// Experts alone, beside shared experts, and beside a gated shared expert.
INSTANTIATE_TEST_SUITE_P(Models,
                         HybridExperts,
                         ::testing::Values("mixtral", "deepseek-v3", "qwen2-moe"),
                         checkpoint_test_name);

}  // namespace
}  // namespace graft::models
