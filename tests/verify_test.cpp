// Every golden checkpoint through the program: as published, through GGUF, in chunks.

#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "graft/testing/golden.h"

#include "tests/program.h"

namespace graft::tests {
namespace {

// Text models; llava's text model is llama, and its reference is for images.
constexpr const char* kGolden[] = {
    "llama",       "llama3-rope",      "qwen2",       "qwen2-moe",
    "qwen3",       "qwen3-moe",        "mixtral",     "deepseek-v2-lite",
    "deepseek-v2", "deepseek-v2-yarn", "deepseek-v3", "deepseek-v3-yarn",
    "glm4-moe"};

class Verify : public testing::TestWithParam<const char*> {};

TEST_P(Verify, AgreesWithTheReference) {
  const auto folder = golden_checkpoint(GetParam());
  const std::vector<std::vector<std::string>> ways = {
      {}, {"--gguf-via", "F32"}, {"--gguf-via", "BF16"}, {"--chunk", "7"}};
  for (const std::vector<std::string>& way : ways) {
    std::vector<std::string> words = {"verify", folder.string()};
    words.insert(words.end(), way.begin(), way.end());
    const Outcome outcome = run_program(words);
    EXPECT_EQ(outcome.exit_code, 0) << (way.empty() ? "" : way[0]) << outcome.out << outcome.err;
    EXPECT_NE(outcome.out.find("24 of 24 tokens equal"), std::string::npos) << outcome.out;
  }
}

TEST_P(Verify, FourBitsAreNotTheSame) {
  const auto folder = golden_checkpoint(GetParam());
  const Outcome outcome = run_program({"verify", folder.string(), "--gguf-via", "Q4_0"});
  EXPECT_EQ(outcome.exit_code, 1) << outcome.out << outcome.err;
  EXPECT_NE(outcome.out.find("FAILED"), std::string::npos) << outcome.out;
}

INSTANTIATE_TEST_SUITE_P(Golden, Verify, testing::ValuesIn(kGolden), [](const auto& test) {
  std::string name = test.param;
  std::erase(name, '-');
  return name;
});

TEST(VerifyCommand, MissingReferenceIsAUserError) {
  const auto sprout = sprout_checkpoint();
  const Outcome outcome = run_program({"verify", sprout.string()});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_NE(outcome.err.find("reference.safetensors"), std::string::npos) << outcome.err;
}

}  // namespace
}  // namespace graft::tests
