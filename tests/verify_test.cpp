// `graft verify` on every golden checkpoint: as stored, converted to GGUF, and with chunked
// prefill.

#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "graft/base/text/json.h"
#include "graft/tensor/gpus.h"
#include "graft/testing/golden.h"

#include "tests/program.h"

namespace graft::tests {
namespace {

// Text models only; llava's text model is llama, and its reference needs images.
constexpr const char* kGolden[] = {"llama",       "llama3-rope",
                                   "qwen2",       "qwen2-moe",
                                   "qwen3",       "qwen3-moe",
                                   "mixtral",     "deepseek-v2-lite",
                                   "deepseek-v2", "deepseek-v2-yarn",
                                   "deepseek-v3", "deepseek-v3-yarn",
                                   "glm4-moe",    "glm4",
                                   "minimax-m2",  "phi3",
                                   "gemma3",      "gpt-oss",
                                   "qwen3-next",  "qwen3.5-moe",
                                   "llama4"};

class Verify : public testing::TestWithParam<const char*> {};

TEST_P(Verify, MatchesTheReference) {
  const auto folder = golden_checkpoint(GetParam());
  const std::vector<std::vector<std::string>> variants = {
      {}, {"--gguf-via", "F32"}, {"--gguf-via", "BF16"}, {"--chunk", "7"}};
  for (const std::vector<std::string>& variant : variants) {
    std::vector<std::string> words = {"verify", folder.string()};
    words.insert(words.end(), variant.begin(), variant.end());
    const Outcome outcome = run_program(words);
    EXPECT_EQ(outcome.exit_code, 0)
        << (variant.empty() ? "" : variant[0]) << outcome.out << outcome.err;
    EXPECT_NE(outcome.out.find("24 of 24 tokens equal"), std::string::npos) << outcome.out;
  }
}

TEST_P(Verify, FourBitWeightsFail) {
  const auto folder = golden_checkpoint(GetParam());
  const Outcome outcome = run_program({"verify", folder.string(), "--gguf-via", "Q4_0"});
  EXPECT_EQ(outcome.exit_code, 1) << outcome.out << outcome.err;
  EXPECT_NE(outcome.out.find("FAILED"), std::string::npos) << outcome.out;
}

INSTANTIATE_TEST_SUITE_P(Golden, Verify, testing::ValuesIn(kGolden), [](const auto& test) {
  std::string name = test.param;
  std::erase_if(name, [](char letter) { return letter == '-' || letter == '.'; });
  return name;
});

// The indexer of the model has scores that are equal.
TEST(VerifyCommand, PrintsJson) {
  const std::string folder = golden_checkpoint(kGolden[0]).string();
  const Json report = parse_json(run_program({"verify", folder, "--json"}).out, "verify");
  EXPECT_EQ(report["folder"], folder);
  EXPECT_EQ(report["ok"], true);
  EXPECT_LE(report["largest_error"], report["tolerance"]);
  EXPECT_GT(report["prompts"][0]["tokens"], 0);
}

TEST(VerifyCommand, ExplainsDifferencesOfAnIndexer) {
  const Outcome outcome = run_program({"verify", golden_checkpoint("deepseek-v3.2").string()});
  EXPECT_EQ(outcome.exit_code, 1) << outcome.err;
  EXPECT_NE(outcome.out.find("note: an indexer selects the positions"), std::string::npos)
      << outcome.out;
}

TEST(VerifyCommand, MissingReferenceIsAUserError) {
  const auto sprout = sprout_checkpoint();
  const Outcome outcome = run_program({"verify", sprout.string()});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_NE(outcome.err.find("reference.safetensors"), std::string::npos) << outcome.err;
}

TEST(VerifyCommand, RunsOnTheGpuOfThisMachineOrSaysWhyNot) {
  const auto folder = golden_checkpoint("llama");
  const Outcome outcome = run_program({"verify", folder.string(), "--device", "cuda"});
  const GpuList list = list_gpus();
  if (!list.gpus.empty()) {
    EXPECT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
    return;
  }
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_NE(outcome.err.find("--device cuda: no GPU available: "), std::string::npos)
      << outcome.err;
}

TEST(VerifyCommand, AnUnknownDeviceIsAUserError) {
  const auto folder = golden_checkpoint("llama");
  const Outcome outcome = run_program({"verify", folder.string(), "--device", "npu"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_NE(outcome.err.find("expected cpu, cuda"), std::string::npos) << outcome.err;
}

}  // namespace
}  // namespace graft::tests
