// Quantized KV caches on a GPU beside those on the CPU.

#include <cstdint>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "graft/base/error.h"
#include "graft/base/text/str.h"
#include "graft/models/generate.h"
#include "graft/ops/cuda/operators.h"
#include "graft/testing/cuda/virtual_gpus.h"
#include "graft/testing/golden.h"
#include "graft/testing/near_logits.h"
#include "graft/testing/placement.h"

namespace graft::models {
namespace {

using testing::PlacedModel;

PromptRun run_with_cache(std::string_view checkpoint,
                         const std::string& rules,
                         const std::string& dtype,
                         std::int64_t chunk) {
  TokenIds prompt;
  for (std::int32_t i = 0; i < 70; ++i)
    prompt.push_back(3 + i * 7 % 250);
  std::string with_type = rules;
  const std::size_t at = with_type.find("dtype: f32");
  with_type.replace(at, std::string_view("dtype: f32").size(), str("dtype: ", dtype));
  PlacedModel placed(golden_checkpoint(checkpoint), with_type, ops::cuda::register_cuda);
  if (!placed.ok()) fail(placed.findings());
  return run_prompts(placed.model(), {&prompt, 1}, {.chunk = chunk}).front();
}

constexpr const char* kFast = R"yaml(
- match: {role: kv_cache}
  replace: {class: default, kwargs: {device: "cuda:0", dtype: f32}}
- match: {name: ".*"}
  replace: {class: default, kwargs: {device: "cuda:0"}}
)yaml";

class QuantizedCache : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { ops::testing::use_virtual_gpus(); }
  void SetUp() override { GRAFT_REQUIRE_GPU(); }
};

// The error of a type's logits: that on the GPU is not much larger than that on the CPU, whose
// codes differ.
void expect_errors_of_the_cpu(const std::string& gpu_rules, double slack) {
  for (const std::string_view checkpoint : {"llama", "qwen3", "gemma3", "deepseek-v2-lite"}) {
    const PromptRun exact = run_with_cache(checkpoint, testing::kExactCpu, "f32", 0);
    for (const std::string dtype : {"fp8", "q8_0", "q4_0"}) {
      const bool has_blocks = dtype != "fp8";
      if (has_blocks && checkpoint == "deepseek-v2-lite") continue;  // latents of 80 values
      const PromptRun on_cpu = run_with_cache(checkpoint, testing::kExactCpu, dtype, 0);
      const double allowed = 1.5 * testing::relative_error(on_cpu.logits, exact.logits) + slack;
      for (const std::int64_t chunk : {0, 1, 33}) {
        const PromptRun on_gpu = run_with_cache(checkpoint, gpu_rules, dtype, chunk);
        EXPECT_LT(testing::relative_error(on_gpu.logits, exact.logits), allowed)
            << checkpoint << ", " << dtype << ", chunks of " << chunk;
      }
    }
  }
}

TEST_F(QuantizedCache, HasTheErrorsOfTheCpu) {
  expect_errors_of_the_cpu(testing::kExactGpu, 1e-3);
}

// With tensor cores: prefill over F16 copies, decode over the cache.
TEST_F(QuantizedCache, HasTheErrorsOfTheCpuInFastArithmetic) {
  expect_errors_of_the_cpu(kFast, 0.02);
}

}  // namespace
}  // namespace graft::models
