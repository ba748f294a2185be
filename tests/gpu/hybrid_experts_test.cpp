// Experts in host memory that a GPU and the CPU compute together, against f32 arithmetic on the
// CPU.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "graft/base/text/str.h"
#include "graft/models/generate.h"
#include "graft/models/weights/verify.h"
#include "graft/ops/cuda/operators.h"
#include "graft/testing/cuda/virtual_gpus.h"
#include "graft/testing/decoding.h"
#include "graft/testing/golden.h"
#include "graft/testing/near_logits.h"
#include "graft/testing/placement.h"
#include "graft/testing/test_names.h"

namespace graft::models {
namespace {

using testing::Decoding;
using testing::kExactCpu;
using testing::PlacedModel;
using testing::relative_error;

// f32 arithmetic everywhere, so that differences are errors of the GPU. Packed experts of the CPU
// round x to int8 or bf16.
std::string hybrid_rules(const std::string& gpu_experts, std::int64_t stream_from, bool is_packed) {
  return str(R"yaml(
- match: {role: experts}
  replace:
    class: default
    kwargs:
      generate_device: cpu
      prefill_device: "cuda:0"
      precision: f32
      repack: )yaml",
             is_packed ? "true" : "false", "\n      gpu_experts: ", gpu_experts,
             "\n      stream_from: ", stream_from, R"yaml(
- match: {role: kv_cache}
  replace: {class: default, kwargs: {device: "cuda:0", dtype: f32}}
- match: {role: linear}
  replace: {class: default, kwargs: {device: "cuda:0", precision: f32}}
- match: {role: attention}
  replace: {class: default, kwargs: {device: "cuda:0", precision: f32}}
- match: {name: ".*"}
  replace: {class: default, kwargs: {device: "cuda:0"}}
)yaml");
}

class GpuHybridExperts : public ::testing::TestWithParam<const char*> {
 protected:
  static void SetUpTestSuite() { ops::testing::use_virtual_gpus(); }
  void SetUp() override { GRAFT_REQUIRE_GPU(); }
  static std::filesystem::path folder() { return golden_checkpoint(GetParam()); }
};

TEST_P(GpuHybridExperts, PrefillAndDecodeMatchTheCpu) {
  const auto prompts = read_reference_prompts(folder() / "reference.safetensors");
  PlacedModel here(folder(), kExactCpu, ops::cuda::register_cuda);
  for (const char* gpu_experts : {"1", "50%", "100%"}) {
    for (const std::int64_t stream_from : {1, 16, 65536}) {
      PlacedModel there(folder(), hybrid_rules(gpu_experts, stream_from, false),
                        ops::cuda::register_cuda);
      ASSERT_EQ(there.findings().find("error"), std::string::npos) << there.findings();
      for (const std::int64_t chunk : {0, 1}) {
        const PromptRun want = run_prompts(here.model(), {&prompts.front(), 1}).front();
        const PromptRun got =
            run_prompts(there.model(), {&prompts.front(), 1}, {.chunk = chunk}).front();
        EXPECT_LT(relative_error(got.logits, want.logits), 1e-3)
            << gpu_experts << " on the GPU, stream_from " << stream_from << ", chunk " << chunk;
      }
    }
  }
}

// All experts of a packed store in slots: the CPU, which rounds, computes none.
TEST_P(GpuHybridExperts, SlotsHoldPackedExperts) {
  PlacedModel here(folder(), kExactCpu, ops::cuda::register_cuda);
  PlacedModel there(folder(), hybrid_rules("100%", 65536, true), ops::cuda::register_cuda);
  for (const std::int64_t num_sequences : {1, 9, 32}) {
    const auto want = Decoding(here.model(), num_sequences).all_steps();
    const auto got = Decoding(there.model(), num_sequences).all_steps();
    for (std::size_t i = 0; i < want.size(); ++i)
      EXPECT_LT(relative_error(got[i], want[i]), 1e-3) << num_sequences << " sequences, step " << i;
  }
}

TEST_P(GpuHybridExperts, FollowTheRoutingInGraphs) {
  constexpr std::int64_t kSteps = 128;
  PlacedModel here(folder(), kExactCpu, ops::cuda::register_cuda);
  PlacedModel there(folder(), hybrid_rules("1", 65536, false), ops::cuda::register_cuda);
  Decoding want(here.model(), 4, kSteps);
  Decoding got(there.model(), 4, kSteps);
  for (std::int64_t step = 0; step < kSteps; ++step)
    EXPECT_LT(relative_error(got.step(step), want.step(step)), 1e-3) << "step " << step;
}

INSTANTIATE_TEST_SUITE_P(Models,
                         GpuHybridExperts,
                         ::testing::Values("mixtral", "qwen2-moe", "qwen3-moe", "deepseek-v3"),
                         checkpoint_test_name);

}  // namespace
}  // namespace graft::models
