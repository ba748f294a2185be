// FP8 with scales per tensor, row and tile, and DeepSeek-V4 as published (FP8 and FP4), on a GPU
// against f32 arithmetic on the CPU with the same values.

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "graft/base/error.h"
#include "graft/base/system/temp_dir.h"
#include "graft/models/generate.h"
#include "graft/ops/cuda/operators.h"
#include "graft/testing/checkpoints/fp8_checkpoint.h"
#include "graft/testing/checkpoints/published_v4.h"
#include "graft/testing/cuda/virtual_gpus.h"
#include "graft/testing/golden.h"
#include "graft/testing/near_logits.h"
#include "graft/testing/placement.h"

namespace graft::models {
namespace {

using formats::test::Fp8Case;
using formats::test::Fp8Checkpoint;
using testing::kFastGpu;
using testing::PlacedModel;

constexpr const char* kFp8Exact = R"yaml(
- match: {role: kv_cache}
  replace: {class: default, kwargs: {device: "cuda:0", dtype: f32}}
- match: {role: linear}
  replace: {class: default, kwargs: {device: "cuda:0", precision: f32}}
- match: {role: attention}
  replace: {class: default, kwargs: {device: "cuda:0", precision: f32}}
- match: {role: experts}
  replace: {class: default, kwargs: {device: "cuda:0", precision: f32}}
- match: {name: ".*"}
  replace: {class: default, kwargs: {device: "cuda:0"}}
)yaml";

constexpr const char* kFp8Hybrid = R"yaml(
- match: {role: experts}
  replace: {class: experts, kwargs: {device: cpu, out_device: "cuda:0", repack: false}}
)yaml";

PromptRun run_fp8(const std::filesystem::path& folder,
                  const std::string& rules,
                  std::int64_t chunk) {
  TokenIds prompt;
  for (std::int32_t i = 0; i < 40; ++i)
    prompt.push_back(3 + i * 7 % 300);
  PlacedModel placed(folder, rules, ops::cuda::register_cuda);
  if (!placed.ok()) fail(placed.findings());
  return run_prompts(placed.model(), {&prompt, 1}, {.chunk = chunk}).front();
}

struct GpuFp8Case {
  std::string_view name;
  const char* checkpoint;
  Fp8Case form;
};

class GpuFp8 : public ::testing::TestWithParam<GpuFp8Case> {
 protected:
  static void SetUpTestSuite() { ops::testing::use_virtual_gpus(); }
  void SetUp() override { GRAFT_REQUIRE_GPU(); }
};

TEST_P(GpuFp8, MatchesTheCpu) {
  const TempDir folder;
  const Fp8Checkpoint written(golden_checkpoint(GetParam().checkpoint), folder.path(),
                              GetParam().form);
  const PromptRun want = run_fp8(written.floats(), testing::kExactCpu, 0);
  const bool has_experts = GetParam().name.ends_with("experts");
  for (const std::int64_t chunk : {0, 1, 7}) {
    const PromptRun exact = run_fp8(written.fp8(), kFp8Exact, chunk);
    EXPECT_LT(testing::relative_error(exact.logits, want.logits), 1e-3) << "chunk " << chunk;
    // Near a tie a router chooses other experts.
    const PromptRun fast = run_fp8(written.fp8(), kFastGpu, chunk);
    EXPECT_LT(testing::relative_error(fast.logits, want.logits), has_experts ? 3e-1 : 1e-1)
        << "chunk " << chunk;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Scales,
    GpuFp8,
    ::testing::Values(GpuFp8Case{"tiles_experts", "qwen3-moe", formats::test::kFp8Tiles},
                      GpuFp8Case{"rows", "llama", formats::test::kFp8Rows},
                      GpuFp8Case{"rows_fused", "phi3", formats::test::kFp8CompressedRows},
                      GpuFp8Case{"rows_experts", "qwen3-moe", formats::test::kFp8CompressedRows},
                      GpuFp8Case{"rows_transposed_experts", "llama4", formats::test::kFp8Rows},
                      GpuFp8Case{"tensor", "llama", formats::test::kFp8Tensor},
                      GpuFp8Case{"tensor_experts", "qwen3-moe", formats::test::kFp8Tensor}),
    [](const auto& tested) { return std::string(tested.param.name); });

TEST(GpuPublishedV4, MatchesTheCpu) {
  ops::testing::use_virtual_gpus();
  GRAFT_REQUIRE_GPU();
  const TempDir folder;
  const formats::test::PublishedV4 written(golden_checkpoint("deepseek-v4"), folder.path());
  const PromptRun want = run_fp8(written.floats(), testing::kExactCpu, 0);
  for (const std::string& rules : {std::string(kFp8Exact), std::string(kFp8Hybrid) + kFp8Exact}) {
    for (const std::int64_t chunk : {0, 1, 7}) {
      const PromptRun got = run_fp8(written.published(), rules, chunk);
      EXPECT_LT(testing::relative_error(got.logits, want.logits), 1e-3) << "chunk " << chunk;
    }
  }
}

}  // namespace
}  // namespace graft::models
