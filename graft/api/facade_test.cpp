// graft::LLM through its public header alone.

#include <future>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "graft/llm.h"
#include "graft/testing/shared_data.h"

namespace {

constexpr const char* kQuestion =
    "<|im_start|>user\nFind the sum of 62 and 1.<|im_end|>\n<|im_start|>assistant\n";

graft::LlmConfig small_config() {
  graft::LlmConfig config;
  config.engine.max_model_len = 512;
  config.engine.max_num_seqs = 4;
  config.device = "cpu";
  config.profile = true;
  return config;
}

graft::SamplingParams greedy() {
  return {.temperature = 0, .max_tokens = 40};
}

TEST(PublicLlm, GeneratesStreamsAndReports) {
  graft::LLM llm(graft::bundled_sprout(), small_config());
  const std::vector<graft::Output> outputs = llm.generate({kQuestion}, greedy());
  EXPECT_EQ(outputs.at(0).samples.at(0).text, "62 + 1 = 63");

  std::promise<std::string> done;
  std::string text;
  llm.submit(llm.encode(kQuestion), greedy(), [&](const graft::Update& update) {
    text += update.text;
    if (update.finish) done.set_value(text);
  });
  EXPECT_EQ(done.get_future().get(), "62 + 1 = 63");

  EXPECT_EQ(llm.config().max_model_len, 512);
  EXPECT_GT(llm.stats().num_output_tokens, 0);
  EXPECT_NE(llm.plan_text().find("cpu.linear"), std::string::npos);
  EXPECT_GT(llm.profile()["lm_head"].calls, 0);
  EXPECT_FALSE(llm.embed("Hello").empty());
}

TEST(PublicLlm, EncodesAndDecodes) {
  const graft::LLM llm(graft::bundled_sprout(), small_config());
  ASSERT_TRUE(llm.has_tokenizer());
  const std::vector<graft::TokenId> tokens = llm.encode("<|im_start|>user\nHello");
  EXPECT_EQ(llm.decode(tokens, true), "<|im_start|>user\nHello");
  EXPECT_EQ(llm.decode(tokens), "user\nHello");
}

TEST(PublicLlm, ErrorsAreReported) {
  EXPECT_THROW(graft::LLM("/no/such/model"), graft::Error);
  graft::LLM llm(graft::bundled_sprout(), small_config());
  EXPECT_THROW(llm.generate({kQuestion}, graft::SamplingParams{.temperature = -1}), graft::Error);
}

}  // namespace
