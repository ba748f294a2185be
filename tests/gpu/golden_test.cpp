// Every model family on GPUs, alone and with experts on the CPU, against f32 arithmetic on the CPU.

#include "graft/testing/golden.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "graft/base/error.h"
#include "graft/models/generate.h"
#include "graft/models/weights/verify.h"
#include "graft/ops/cuda/operators.h"
#include "graft/testing/cuda/virtual_gpus.h"
#include "graft/testing/decoding.h"
#include "graft/testing/far_tokens.h"
#include "graft/testing/near_logits.h"
#include "graft/testing/placement.h"
#include "graft/testing/test_names.h"

namespace graft::models {
namespace {

using testing::kExactCpu;
using testing::kExactGpu;
using testing::kFastGpu;
using testing::PlacedModel;
using testing::relative_error;

constexpr const char* kExpertsOnCpu = R"yaml(
- match: {name: "[.]experts$"}
  replace: {class: experts, kwargs: {device: cpu, out_device: "cuda:0"}}
- match: {role: embedding}
  replace: {class: default, kwargs: {device: cpu, out_device: "cuda:0"}}
- match: {name: ".*"}
  replace: {class: default, kwargs: {device: "cuda:0"}}
)yaml";

// Experts on the CPU, half of the layers on a second GPU.
constexpr const char* kHybrid = R"yaml(
- match: {name: "[.]experts$"}
  replace: {class: experts, kwargs: {device: cpu, out_device: "cuda:0", repack: false}}
- match: {name: "^model$"}
  replace: {class: model, kwargs: {transfer_map: {2: "cuda:1"}}}
- match: {name: "^model[.]layers[.][2-9].*(kv|window)_cache"}
  replace: {class: default, kwargs: {device: "cuda:1", dtype: f32}}
- match: {name: "(kv|window)_cache"}
  replace: {class: default, kwargs: {device: "cuda:0", dtype: f32}}
- match: {name: "^(model[.]layers[.][2-9].*_proj|lm_head)"}
  replace: {class: default, kwargs: {device: "cuda:1", precision: f32}}
- match: {role: linear}
  replace: {class: default, kwargs: {device: "cuda:0", precision: f32}}
- match: {name: "^(model[.]layers[.][2-9]|model[.]norm|model[.]hc_head)"}
  replace: {class: default, kwargs: {device: "cuda:1"}}
- match: {name: ".*"}
  replace: {class: default, kwargs: {device: "cuda:0"}}
)yaml";

// Experts stay in host memory and are streamed to the GPU for every prefill pass. `packed`: as the
// CPU kernels pack them.
std::string streamed_rules(bool is_packed, const std::string& precision) {
  return str(R"yaml(
- match: {name: "[.]experts$"}
  replace:
    class: experts
    kwargs: {generate_device: cpu, prefill_device: "cuda:0", out_device: "cuda:0", stream_from: 1, repack: )yaml",
             is_packed ? "true" : "false", ", precision: ", precision, "}\n",
             precision == "f32" ? kExactGpu : kFastGpu);
}

class GpuGolden : public ::testing::TestWithParam<const char*> {
 protected:
  static void SetUpTestSuite() { ops::testing::use_virtual_gpus(); }
  void SetUp() override { GRAFT_REQUIRE_GPU(); }
  static std::filesystem::path folder() { return golden_checkpoint(GetParam()); }

  // Adds rules for MLA, which multiplies with kv_b_proj itself and also needs precision: f32.
  static std::string exact_attention(const std::string& rules) {
    const std::string checkpoint = GetParam();
    if (!checkpoint.starts_with("deepseek") && !checkpoint.starts_with("glm5")) return rules;
    std::string text = rules;
    for (const char* device : {"cuda:0", "cuda:1"}) {
      const std::string first = device == std::string("cuda:1") ? "[2-9]" : "[01]";
      text = str("- {match: {name: \"layers[.]", first,
                 "[.]self_attn$\"}, replace: {class: default, ", "kwargs: {device: \"",
                 rules == kHybrid ? device : "cuda:0", "\", precision: f32}}}\n", text);
    }
    return text;
  }

  static double error_of(const std::string& rules, std::int64_t chunk) {
    PlacedModel here(folder(), kExactCpu, ops::cuda::register_cuda);
    PlacedModel there(folder(), rules, ops::cuda::register_cuda);
    if (!there.ok()) fail(there.findings());
    double error = 0;
    for (const TokenIds& prompt : read_reference_prompts(folder() / "reference.safetensors")) {
      const PromptRun want = run_prompts(here.model(), {&prompt, 1}).front();
      const PromptRun got = run_prompts(there.model(), {&prompt, 1}, {.chunk = chunk}).front();
      error = std::max(error, relative_error(got.logits, want.logits));
    }
    std::cout << GetParam() << ", chunks of " << chunk << ": " << error << '\n';
    return error;
  }
};

TEST_P(GpuGolden, F32ArithmeticMatchesTheCpu) {
  for (const std::int64_t chunk : {0, 1, 7})
    EXPECT_LT(error_of(exact_attention(kExactGpu), chunk), 1e-3);
}

void expect_close(const std::filesystem::path& folder, const std::string& rules) {
  PlacedModel here(folder, kExactCpu, ops::cuda::register_cuda);
  PlacedModel there(folder, rules, ops::cuda::register_cuda);
  ASSERT_TRUE(there.ok()) << there.findings();
  const bool has_experts = here.plan().blueprint->expert_share < 1;
  const auto vocab_size = static_cast<std::size_t>(here.model().vocab_size());
  testing::FarTokens tokens;
  for (const TokenIds& prompt : read_reference_prompts(folder / "reference.safetensors")) {
    const PromptRun want = run_prompts(here.model(), {&prompt, 1}).front();
    const PromptRun got = run_prompts(there.model(), {&prompt, 1}, {.chunk = 16}).front();
    tokens.add(want.logits, got.logits, vocab_size);
  }
  std::cout << folder << ": " << tokens.num_far << " of " << tokens.num_tokens
            << " tokens are far\n";
  EXPECT_LE(tokens.num_far, tokens.max_far(has_experts, here.model().has_states()));
}

TEST_P(GpuGolden, FastArithmeticIsClose) {
  expect_close(folder(), kFastGpu);
}

TEST_P(GpuGolden, StreamedExpertsAreClose) {
  expect_close(folder(), streamed_rules(true, "fast"));
}

TEST_P(GpuGolden, StreamedExpertsMatchTheCpu) {
  for (const bool is_packed : {true, false}) {
    for (const std::int64_t chunk : {0, 7})
      EXPECT_LT(error_of(exact_attention(streamed_rules(is_packed, "f32")), chunk), 1e-3);
  }
}

TEST_P(GpuGolden, HybridPlacementMatchesTheCpu) {
  for (const std::int64_t chunk : {1, 16})
    EXPECT_LT(error_of(exact_attention(kHybrid), chunk), 1e-3);
}

void expect_graphs_match_eager(const std::filesystem::path& folder) {
  for (const std::string rules : {kFastGpu, kExpertsOnCpu}) {
    PlacedModel placed(folder, rules, ops::cuda::register_cuda);
    ASSERT_TRUE(placed.ok()) << placed.findings();
    for (const std::int64_t num_sequences : {1, 3, 9}) {
      placed.model().enforce_eager(true);
      const auto eager = testing::Decoding(placed.model(), num_sequences).all_steps();
      placed.model().enforce_eager(false);
      EXPECT_EQ(testing::Decoding(placed.model(), num_sequences).all_steps(), eager)
          << num_sequences << rules;
    }
  }
}

TEST_P(GpuGolden, CudaGraphsAreBitIdenticalToEager) {
  expect_graphs_match_eager(folder());
}

// Rounded scores select other positions, so that only F32 arithmetic is close to the CPU's.
class GpuSparse : public GpuGolden {};

TEST_P(GpuSparse, F32ArithmeticMatchesTheCpu) {
  for (const std::int64_t chunk : {0, 1, 7})
    EXPECT_LT(error_of(exact_attention(kExactGpu), chunk), 1e-3);
}

TEST_P(GpuSparse, HybridPlacementMatchesTheCpu) {
  for (const std::int64_t chunk : {1, 16})
    EXPECT_LT(error_of(exact_attention(kHybrid), chunk), 1e-3);
}

TEST_P(GpuSparse, CudaGraphsAreBitIdenticalToEager) {
  expect_graphs_match_eager(folder());
}

INSTANTIATE_TEST_SUITE_P(Models,
                         GpuSparse,
                         ::testing::Values("deepseek-v3.2", "glm5", "glm5-shared", "deepseek-v4"),
                         checkpoint_test_name);

INSTANTIATE_TEST_SUITE_P(Models,
                         GpuGolden,
                         ::testing::Values("llama",
                                           "llama3-rope",
                                           "qwen2",
                                           "qwen3",
                                           "qwen2-moe",
                                           "qwen3-moe",
                                           "mixtral",
                                           "glm4-moe",
                                           "glm4",
                                           "deepseek-v2-lite",
                                           "deepseek-v2",
                                           "deepseek-v2-yarn",
                                           "deepseek-v3",
                                           "deepseek-v3-fp8",
                                           "deepseek-v3-int4",
                                           "deepseek-v3-yarn",
                                           "minimax-m2",
                                           "phi3",
                                           "gemma3",
                                           "gpt-oss",
                                           "gpt-oss-mxfp4",
                                           "qwen3-next",
                                           "qwen3.5-moe",
                                           "llama4"),
                         checkpoint_test_name);

}  // namespace
}  // namespace graft::models
