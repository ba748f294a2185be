// Packed integers (GPTQ with ordered columns, AWQ, compressed-tensors) on a GPU against f32
// arithmetic on the CPU.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "graft/base/system/temp_dir.h"
#include "graft/models/generate.h"
#include "graft/ops/cuda/operators.h"
#include "graft/testing/checkpoints/integer_checkpoint.h"
#include "graft/testing/cuda/virtual_gpus.h"
#include "graft/testing/golden.h"
#include "graft/testing/near_logits.h"
#include "graft/testing/placement.h"

namespace graft::models {
namespace {

using formats::IntegerPacking;
using formats::test::IntegerCase;
using formats::test::IntegerCheckpoint;
using testing::kExactGpu;
using testing::kFastGpu;
using testing::PlacedModel;

struct GpuIntegerCase {
  std::string_view name;
  const char* checkpoint;
  IntegerCase integers;
};

class GpuIntegers : public ::testing::TestWithParam<GpuIntegerCase> {
 protected:
  static void SetUpTestSuite() { ops::testing::use_virtual_gpus(); }
  void SetUp() override { GRAFT_REQUIRE_GPU(); }
};

TEST_P(GpuIntegers, MatchTheCpu) {
  const TempDir folder;
  const IntegerCheckpoint written(golden_checkpoint(GetParam().checkpoint), folder.path(),
                                  GetParam().integers);
  TokenIds prompt;
  for (std::int32_t i = 0; i < 40; ++i)
    prompt.push_back(3 + i * 7 % 300);
  PlacedModel here(written.floats(), testing::kExactCpu, ops::cuda::register_cuda);
  const PromptRun want = run_prompts(here.model(), {&prompt, 1}).front();
  for (const std::int64_t chunk : {0, 1, 7}) {
    PlacedModel exact(written.integers(), kExactGpu, ops::cuda::register_cuda);
    const PromptRun got = run_prompts(exact.model(), {&prompt, 1}, {.chunk = chunk}).front();
    EXPECT_LT(testing::relative_error(got.logits, want.logits), 1e-3) << "chunk " << chunk;
    PlacedModel fast(written.integers(), kFastGpu, ops::cuda::register_cuda);
    const PromptRun near = run_prompts(fast.model(), {&prompt, 1}, {.chunk = chunk}).front();
    // Near a tie a router chooses other experts.
    const bool has_experts = fast.plan().blueprint->expert_share < 1;
    EXPECT_LT(testing::relative_error(near.logits, want.logits), has_experts ? 3e-1 : 1e-1)
        << "chunk " << chunk;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Layouts,
    GpuIntegers,
    ::testing::Values(
        GpuIntegerCase{"compressed", "llama", {"", IntegerPacking::CompressedTensors, 4, 64}},
        GpuIntegerCase{"gptq", "llama", {"", IntegerPacking::Gptq, 4, 128, true, false, true}},
        GpuIntegerCase{"gptq_order", "llama", {"", IntegerPacking::Gptq, 4, 32, false, true, true}},
        GpuIntegerCase{
            "gptq_order_fused", "phi3", {"", IntegerPacking::Gptq, 4, 64, true, true, true}},
        GpuIntegerCase{
            "gptq_order_experts", "qwen3-moe", {"", IntegerPacking::Gptq, 4, 32, true, true, true}},
        GpuIntegerCase{"awq", "llama", {"", IntegerPacking::Awq, 4, 64, false}},
        GpuIntegerCase{"awq_experts", "qwen3-moe", {"", IntegerPacking::Awq, 4, 32, false}}),
    [](const auto& tested) { return std::string(tested.param.name); });

}  // namespace
}  // namespace graft::models
