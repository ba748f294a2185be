// Batch invariance with quantized weights: the kernels for one row and for many rows, with any
// chunking, give the same bits. Unlike engine_test.cpp this needs a converted file.

#include <algorithm>
#include <chrono>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "graft/api/llm.h"
#include "graft/testing/shared_data.h"

#include "tests/program.h"

namespace graft::tests {
namespace {

using api::LLM;
using api::LlmConfig;
using api::Output;

struct TokensAndLogprobs {
  std::vector<api::TokenId> tokens;
  std::vector<float> logprobs;

  bool operator==(const TokensAndLogprobs&) const = default;
};

TokensAndLogprobs sample_of(const Output& output) {
  TokensAndLogprobs sample;
  sample.tokens = output.samples.at(0).tokens;
  for (const auto& logprobs : output.samples.at(0).logprobs)
    sample.logprobs.push_back(logprobs.logprob);
  return sample;
}

std::vector<api::Prompt> prompts(int count) {
  std::vector<api::Prompt> all;
  std::string text = "<|im_start|>user\nWrite about";
  for (int i = 0; i < count; ++i) {
    for (int k = 0; k < i % 5 * 4; ++k)
      text += " the " + std::to_string(i * k) + " birds";
    all.emplace_back(text + "<|im_end|>\n<|im_start|>assistant\n");
  }
  return all;
}

// The requests in one batch and each alone give the same tokens and logprobs.
void expect_equal_alone(const std::string& type, const LlmConfig& batched, const LlmConfig& alone) {
  const TempDir folder;
  const std::string model = folder / (type + ".gguf");
  ASSERT_EQ(run_program({"convert", bundled_sprout().string(), model, "--type", type}).exit_code,
            0);
  api::SamplingParams params;
  params.max_tokens = 24;
  params.seed = 5;
  params.logprobs = 1;
  const std::vector<api::Prompt> all = prompts(20);
  const std::vector<Output> want = LLM(model, batched).generate(all, params);
  LLM llm(model, alone);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::vector<Output> got = llm.generate({all[i]}, params);
    EXPECT_EQ(sample_of(got.at(0)), sample_of(want.at(i))) << type << " " << i;
  }
}

TEST(BatchInvariance, QuantizedOutputEqualsEachRequestAlone) {
  GRAFT_SKIP_UNDER_SANITIZERS();
  LlmConfig batched;
  batched.engine.max_model_len = 2048;
  LlmConfig alone = batched;
  alone.engine.chunk_prefill_size = 7;
  alone.engine.enable_prefix_caching = false;
  alone.num_threads = 1;
  for (const std::string type : {"Q4_K_M", "Q8_0"})
    expect_equal_alone(type, batched, alone);
}

// Resident set size of this process.
std::size_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::size_t total = 0;
  std::size_t resident = 0;
  file >> total >> resident;
  return resident * 4096;
}

TEST(IdleEngine, ReleasesKvCacheMemory) {
  GRAFT_SKIP_UNDER_SANITIZERS();
  const auto sprout = bundled_sprout();
  LlmConfig config;
  config.engine.max_model_len = 4096;
  config.engine.idle_release_seconds = 0.2;
  LLM llm(sprout, config);
  api::SamplingParams params;
  params.max_tokens = 1;
  // 16 different prompts of 1,000 tokens.
  std::vector<api::Prompt> all;
  for (int i = 0; i < 16; ++i)
    all.emplace_back(std::vector<api::TokenId>(1000, 100 + i));
  llm.generate({all.front()}, params);  // allocates the workspace
  const std::size_t before = resident_bytes();
  llm.generate(all, params);
  const std::size_t full = resident_bytes();
  // 5 layers x 288 values x 2 bytes x 16,000 tokens = 46 MB.
  EXPECT_GT(full, before + (std::size_t{30} << 20));
  // The workspace of the larger batch is not released.
  const std::size_t idle = full - (std::size_t{36} << 20);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (resident_bytes() > idle && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_LT(resident_bytes(), idle) << "before " << before << ", full " << full;
}

}  // namespace
}  // namespace graft::tests
