// Results are bit-identical wherever the modules are: every module on a random device, in every
// phase, against the CPU alone.

#include "graft/testing/placement.h"

#include <cstring>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "graft/base/error.h"
#include "graft/models/generate.h"
#include "graft/models/weights/verify.h"
#include "graft/testing/device.h"
#include "graft/testing/golden.h"
#include "graft/testing/test_names.h"

namespace graft::models {
namespace {

class OnTestDevices : public testing::PlacedModel {
 public:
  OnTestDevices(const std::filesystem::path& folder, const std::string& rules)
      : testing::PlacedModel(folder, rules, ops::testing::add_test_devices) {}
};

// One rule per module. A cache follows its attention, compressor or indexer, which has one device
// for both phases, and a compressor its attention.
std::string random_rules(const plan::Blueprint& blueprint, unsigned seed) {
  std::mt19937 random(seed);
  const auto device = [&] {
    return std::vector<std::string>{"cpu", "cuda:0", "cuda:1"}[random() % 3];
  };
  std::string rules;
  std::string attention;  // device of the last one
  blueprint.visit([&](const plan::ModuleSpec& module) {
    if (module.role == ops::Role::KvCache || module.name.empty()) return;
    std::string name;
    for (const char c : module.name)
      name += c == '.' ? "[.]" : std::string(1, c);
    const bool follows = module.role == ops::Role::Compressor;
    const std::string generate = follows ? attention : device();
    if (module.role == ops::Role::Attention) attention = generate;
    const bool stays =
        follows || module.role == ops::Role::Attention || module.role == ops::Role::Indexer;
    rules += str("- {match: {name: \"^", name,
                 "$\"}, replace: {class: default, kwargs: ", "{generate_device: \"", generate,
                 "\", prefill_device: \"", stays ? generate : device(), "\"}}}\n");
  });
  return rules;
}

bool is_same(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

class Placement : public ::testing::TestWithParam<const char*> {
 protected:
  static std::filesystem::path folder() { return golden_checkpoint(GetParam()); }

  static void expect_same(OnTestDevices& placed, OnTestDevices& here) {
    for (const TokenIds& prompt : read_reference_prompts(folder() / "reference.safetensors")) {
      const RunOptions options = {.chunk = 16, .hidden = true};
      const PromptRun want = run_prompts(here.model(), {&prompt, 1}, options).front();
      const PromptRun got = run_prompts(placed.model(), {&prompt, 1}, options).front();
      EXPECT_TRUE(is_same(got.logits, want.logits));
      for (std::size_t i = 0; i < want.hidden.size(); ++i)
        EXPECT_TRUE(is_same(got.hidden[i], want.hidden[i])) << "layer " << i;
      EXPECT_EQ(generate_greedy(placed.model(), prompt, 6),
                generate_greedy(here.model(), prompt, 6));
    }
  }
};

TEST_P(Placement, IsBitIdentical) {
  OnTestDevices here(folder(), testing::kCpuOnly);
  ASSERT_EQ(here.findings(), "");
  for (unsigned seed = 1; seed <= 5; ++seed) {
    SCOPED_TRACE(seed);
    OnTestDevices placed(folder(), random_rules(*here.plan().blueprint, seed));
    ASSERT_EQ(placed.findings(), "");
    expect_same(placed, here);
  }
  EXPECT_EQ(ops::testing::test_memory().num_blocks(), 0U);
}

// The usual placement of large MoE models: experts on the CPU, the rest split between two GPUs.
constexpr const char* kHybrid = R"yaml(
- match: {name: "[.]experts$"}
  replace: {class: experts, kwargs: {device: cpu, out_device: "cuda:0"}}
- match: {name: "^model$"}
  replace: {class: model, kwargs: {transfer_map: {2: "cuda:1"}}}
- match: {name: "^(model[.]layers[.][2-9]|model[.]norm|lm_head)"}
  replace: {class: default, kwargs: {device: "cuda:1"}}
- match: {name: ".*"}
  replace: {class: default, kwargs: {device: "cuda:0"}}
)yaml";

TEST_P(Placement, OfExpertsOnTheCpuIsBitIdentical) {
  OnTestDevices here(folder(), testing::kCpuOnly);
  OnTestDevices placed(folder(), kHybrid);
  // For a model without experts, a warning says that the rule matches nothing.
  ASSERT_EQ(placed.findings().find("error"), std::string::npos) << placed.findings();
  expect_same(placed, here);
}

INSTANTIATE_TEST_SUITE_P(Models,
                         Placement,
                         ::testing::Values("llama",
                                           "qwen3",
                                           "qwen2-moe",
                                           "qwen3-moe",
                                           "mixtral",
                                           "deepseek-v2-lite",
                                           "deepseek-v3",
                                           "deepseek-v3.2",
                                           "deepseek-v4",
                                           "glm5-shared",
                                           "llama4"),
                         checkpoint_test_name);

constexpr const char* kCacheApart = R"yaml(
- match: {role: kv_cache}
  replace: {class: default, kwargs: {device: cpu}}
- match: {name: ".*"}
  replace: {class: default, kwargs: {device: "cuda:0"}}
)yaml";
constexpr const char* kPhasesApart = R"yaml(
- match: {role: attention}
  replace: {class: default, kwargs: {generate_device: cpu, prefill_device: "cuda:0"}}
)yaml";

TEST(PlacementRules, KvCacheFollowsItsAttention) {
  const auto folder = golden_checkpoint("llama");
  const OnTestDevices apart(folder, kCacheApart);
  EXPECT_NE(apart.findings().find("the KV cache is on cpu but its attention runs on cuda:0"),
            std::string::npos)
      << apart.findings();
  const OnTestDevices phases(folder, kPhasesApart);
  EXPECT_NE(phases.findings().find("its attention runs on cuda:0"), std::string::npos)
      << phases.findings();
}

}  // namespace
}  // namespace graft::models
