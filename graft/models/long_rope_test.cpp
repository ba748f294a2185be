// LongRoPE: the length of a whole sequence selects the frequencies of all its tokens.

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "graft/base/system/temp_dir.h"
#include "graft/base/text/json.h"
#include "graft/models/generate.h"
#include "graft/models/open_model.h"
#include "graft/models/weights/verify.h"
#include "graft/testing/golden.h"

namespace graft::models {
namespace {

constexpr std::int64_t kOriginal = 32;  // tokens; the two prompts have 21 and 70

// The golden checkpoint with LongRoPE whose frequencies are divided by the given numbers.
class LongRope : public ::testing::Test {
 protected:
  std::filesystem::path make(const std::string& name, double short_factor, double long_factor) {
    const std::filesystem::path from = golden_checkpoint("phi3");
    const std::filesystem::path folder = temp_.path() / name;
    std::filesystem::copy(from, folder, std::filesystem::copy_options::recursive);
    Json config = read_json_file((from / "config.json").string());
    const std::vector<double> shorts(16, short_factor);
    const std::vector<double> longs(16, long_factor);
    config["original_max_position_embeddings"] = kOriginal;
    config["rope_scaling"] = {{"type", "longrope"},
                              {"attention_factor", 1.0},
                              {"short_factor", shorts},
                              {"long_factor", longs}};
    std::filesystem::remove(folder / "config.json");
    std::ofstream(folder / "config.json") << config.dump();
    return folder;
  }

  static std::vector<TokenIds> prompts() {
    return read_reference_prompts(golden_checkpoint("phi3") / "reference.safetensors");
  }

 private:
  TempDir temp_;
};

TEST_F(LongRope, LongPromptsUseTheLongFactorsInAnyChunks) {
  OpenModel plain(golden_checkpoint("phi3"));
  OpenModel only_long_differs(make("long", 1.0, 3.0));
  OpenModel both_differ(make("both", 3.0, 3.0));
  for (const TokenIds& prompt : prompts()) {
    const bool is_long = static_cast<std::int64_t>(prompt.size()) > kOriginal;
    const auto logits = [&](OpenModel& open, std::int64_t chunk) {
      return run_prompts(open.model(), {&prompt, 1}, {.chunk = chunk}).front().logits;
    };
    const std::vector<float> got = logits(only_long_differs, 0);
    EXPECT_EQ(got, logits(is_long ? both_differ : plain, 0)) << prompt.size();
    EXPECT_NE(got, logits(is_long ? plain : both_differ, 0)) << prompt.size();
    for (const std::int64_t chunk : {1, 7, 33})
      EXPECT_EQ(logits(only_long_differs, chunk), got) << "chunks of " << chunk;
  }
}

// A sequence of 21 tokens grows to 45: each token is the best of a new pass over all before it.
TEST_F(LongRope, GrowingSequencesAreComputedAgain) {
  OpenModel open(make("long", 1.0, 3.0));
  const TokenIds prompt = prompts().front();
  ASSERT_LT(static_cast<std::int64_t>(prompt.size()), kOriginal);
  const TokenIds output = generate_greedy(open.model(), prompt, 24, 0);
  TokenIds all = prompt;
  for (std::size_t i = 0; i < output.size(); ++i) {
    const PromptRun run = run_prompts(open.model(), {&all, 1}).front();
    const auto last = run.logits.end() - open.model().vocab_size();
    EXPECT_EQ(std::max_element(last, run.logits.end()) - last, output[i]) << "token " << i;
    all.push_back(output[i]);
  }
  ASSERT_GT(static_cast<std::int64_t>(all.size()), kOriginal);
}

}  // namespace
}  // namespace graft::models
