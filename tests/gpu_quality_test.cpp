// Perplexity and accuracy of Sprout on a GPU, alone and with experts on the CPU, against the values
// of another implementation in its model card.

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "graft/base/system/temp_dir.h"
#include "graft/base/text/json.h"
#include "graft/tensor/gpus.h"
#include "graft/testing/shared_data.h"

#include "tests/program.h"

namespace graft::tests {
namespace {

class GpuQuality : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const GpuList list = list_gpus();
    const char* required = std::getenv("GRAFT_REQUIRE_GPU");
    if (!list.gpus.empty()) return;
    if (required != nullptr && std::string(required) == "1") FAIL() << list.unavailable;
    GTEST_SKIP() << list.unavailable;
  }

  static std::string rules_file() {
    return (std::filesystem::path(GRAFT_SOURCE_DIR) / "rules" / (std::string(GetParam()) + ".yaml"))
        .string();
  }
  Outcome run(std::vector<std::string> words) const {
    words.insert(words.end(), {"-m", sprout().string(), "--json", "--rules", rules_file()});
    return run_program(words);
  }

  // The BF16 checkpoint where the machine has it, otherwise the bundled file.
  static std::filesystem::path sprout() {
    const auto bf16 = shared_data("models/sprout");
    return std::filesystem::exists(bf16) ? bf16 : bundled_sprout();
  }
};

TEST_P(GpuQuality, PerplexityMatchesTheModelCard) {
  const Outcome outcome = run({"perplexity", test_data("sprout/val.txt").string()});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const double perplexity = parse_json(outcome.out, "perplexity").at("perplexity").get<double>();
  RecordProperty("perplexity", std::to_string(perplexity));
  EXPECT_NEAR(perplexity, 28.4672, 0.005 * 28.4672);
}

TEST_P(GpuQuality, AnswersMatchTheModelCard) {
  const TempDir folder;
  const Outcome outcome =
      run({"eval", test_data("sprout/eval.jsonl").string(), "--answers", folder / "a.jsonl"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const Json figures = parse_json(outcome.out, "eval");
  EXPECT_NEAR(figures.at("right").get<int>(), 584, 3);
  EXPECT_EQ(figures.at("all"), 608);
  std::ifstream got(folder / "a.jsonl");
  std::ifstream want(test_data("sprout/eval.jsonl"));
  int num_different = 0;
  for (std::string a, b; std::getline(got, a) && std::getline(want, b);)
    num_different += Json::parse(a).at("output") == Json::parse(b).at("greedy") ? 0 : 1;
  EXPECT_LE(num_different, sprout() == bundled_sprout() ? 608 / 12 : 608 / 20);
}

// Decode with batch size 1 and quantized weights: activations are int8 on the CPU and F16 or int8
// on the GPU, and sums differ by rounding. At most one answer may differ.
TEST_P(GpuQuality, SingleAnswersMatchTheCpu) {
  const std::string rules = rules_file();
  int num_different = 0;
  for (int i = 0; i < 8; ++i) {
    const std::string prompt = "What is " + std::to_string(11 + 7 * i) + " + 25?";
    const auto answer = [&](const std::vector<std::string>& where) {
      std::vector<std::string> words = {"run", "-m", "sprout", "--temperature", "0", prompt};
      words.insert(words.end(), where.begin(), where.end());
      const Outcome outcome = run_program(words);
      EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
      EXPECT_FALSE(outcome.out.empty());
      return outcome.out;
    };
    num_different += answer({"--rules", rules}) == answer({"--device", "cpu"}) ? 0 : 1;
  }
  EXPECT_LE(num_different, 1);
}

INSTANTIATE_TEST_SUITE_P(Rules,
                         GpuQuality,
                         ::testing::Values("gpu", "hybrid/deepseek_v3"),
                         [](const ::testing::TestParamInfo<const char*>& param) {
                           return std::string(param.param) == "gpu" ? "Alone" : "ExpertsOnCpu";
                         });

}  // namespace
}  // namespace graft::tests
