// Every family against transformers' results for the same files, and against itself: results must
// not depend on chunking, on the batch composition or on the form of MLA.

#include "graft/testing/golden.h"

#include <array>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <string>

#include <gtest/gtest.h>

#include "graft/models/weights/checkpoint.h"
#include "graft/models/weights/verify.h"
#include "graft/testing/checkpoints/verify_golden.h"
#include "graft/testing/test_names.h"

namespace graft::models {
namespace {

constexpr std::array kCheckpoints = {"llama",
                                     "llama3-rope",
                                     "qwen2",
                                     "qwen3",
                                     "qwen2-moe",
                                     "qwen3-moe",
                                     "mixtral",
                                     "glm4-moe",
                                     "glm4",
                                     "deepseek-v2-lite",
                                     "deepseek-v2",
                                     "deepseek-v2-yarn",
                                     "deepseek-v3",
                                     "deepseek-v3-yarn",
                                     "deepseek-v3-fp8",
                                     "minimax-m2",
                                     "phi3",
                                     "gemma3",
                                     "gpt-oss",
                                     "gpt-oss-mxfp4",
                                     "qwen3-next",
                                     "qwen3.5-moe",
                                     "deepseek-v3-int4",
                                     "deepseek-v3.2",
                                     "glm5",
                                     "llama4",
                                     "deepseek-v4"};

bool is_same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

void expect_same_bits(const PromptRun& got, const PromptRun& want, const std::string& what) {
  EXPECT_TRUE(is_same_bits(got.logits, want.logits)) << what;
  for (std::size_t i = 0; i < got.hidden.size(); ++i) {
    EXPECT_TRUE(is_same_bits(got.hidden[i], want.hidden[i])) << what << ", layer " << i;
  }
}

void expect_right(const PromptReport& prompt, double tolerance) {
  EXPECT_LE(prompt.logit_error, tolerance) << prompt.name;
  for (std::size_t i = 0; i < prompt.hidden_errors.size(); ++i) {
    EXPECT_LE(prompt.hidden_errors[i], tolerance) << prompt.name << ".hidden." << i;
  }
  EXPECT_EQ(prompt.greedy, prompt.expected_greedy) << prompt.name;
}

class Golden : public ::testing::TestWithParam<const char*> {
 protected:
  static std::filesystem::path folder() { return golden_checkpoint(GetParam()); }
  static std::filesystem::path reference() { return folder() / "reference.safetensors"; }
};

TEST_P(Golden, MatchesTheReference) {
  const VerifyReport report =
      testing::verify_golden(GetParam(), folder(), testing::golden_options(GetParam()));
  ASSERT_EQ(report.prompts.size(), 2U);
  // The reference has those of the first prompt: after the embedding and after every layer.
  const auto num_layers = open_checkpoint(folder())->config().num_hidden_layers;
  ASSERT_EQ(report.prompts[0].hidden_errors.size(), static_cast<std::size_t>(num_layers) + 1);
  ASSERT_EQ(report.prompts[0].greedy.size(), 24U);
  for (const PromptReport& prompt : report.prompts)
    expect_right(prompt, report.tolerance);
  EXPECT_TRUE(report.ok());
  RecordProperty("largest_error", str(report.largest_error()));
  std::cout << GetParam() << ": largest error " << report.largest_error() << '\n';
}

TEST_P(Golden, IsBitIdenticalInAnyChunks) {
  OpenModel open(folder());
  for (const TokenIds& prompt : read_reference_prompts(reference())) {
    const PromptRun whole = run_prompts(open.model(), {&prompt, 1}, {.hidden = true}).front();
    for (const std::int64_t chunk : {1, 7, 16}) {
      const PromptRun run =
          run_prompts(open.model(), {&prompt, 1}, {.chunk = chunk, .hidden = true}).front();
      expect_same_bits(run, whole, str("chunks of ", chunk));
    }
  }
}

TEST_P(Golden, IsBitIdenticalInAnyBatch) {
  OpenModel open(folder());
  const std::vector<TokenIds> prompts = read_reference_prompts(reference());
  // In chunks of 9 the short prompt ends before the long one.
  for (const std::int64_t chunk : {0, 9}) {
    const auto together = run_prompts(open.model(), prompts, {.chunk = chunk, .hidden = false});
    for (std::size_t i = 0; i < prompts.size(); ++i) {
      const PromptRun alone = run_prompts(open.model(), {&prompts[i], 1}).front();
      EXPECT_TRUE(is_same_bits(together[i].logits, alone.logits)) << "prompt " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Golden, ::testing::ValuesIn(kCheckpoints), checkpoint_test_name);

// Both forms of latent attention, in both phases.
class GoldenLatent : public Golden {};

TEST_P(GoldenLatent, AbsorbedAndExpandedFormsMatchTheReference) {
  for (const char* absorb : {"true", "false"}) {
    VerifyOptions options = testing::golden_options(GetParam());
    options.open.rules +=
        str("- match: {role: attention}\n  replace: {class: default, kwargs: ", "{absorb: ", absorb,
            "}}\n");
    const VerifyReport report = testing::verify_golden(GetParam(), folder(), options);
    EXPECT_TRUE(report.ok()) << "absorb: " << absorb << ", error " << report.largest_error();
  }
}

INSTANTIATE_TEST_SUITE_P(Models,
                         GoldenLatent,
                         ::testing::Values("deepseek-v2-lite",
                                           "deepseek-v2",
                                           "deepseek-v2-yarn",
                                           "deepseek-v3",
                                           "deepseek-v3-yarn",
                                           "deepseek-v3.2",
                                           "glm5"),
                         checkpoint_test_name);

// The indexer of graft selects the earlier of equal scores, where PyTorch selects any: no scores of
// this prompt are equal where it matters.
TEST(SparseAttention, MatchesTheReferenceWithoutEqualScores) {
  const std::filesystem::path folder = golden_checkpoint("deepseek-v3.2");
  const VerifyReport report = verify(folder, folder / "reference.safetensors", {});
  const PromptReport& prompt = report.prompts.at(0);
  EXPECT_LE(prompt.logit_error, report.tolerance);
  for (const double error : prompt.hidden_errors)
    EXPECT_LE(error, report.tolerance);
}

// The reference is llama.cpp's: no two scores are equal where it matters.
TEST(SparseAttention, MatchesTheReferenceWithSharedIndexers) {
  const std::filesystem::path folder = golden_checkpoint("glm5-shared");
  for (const std::int64_t chunk : {0, 1, 7}) {
    VerifyOptions options;
    options.chunk = chunk;
    const VerifyReport report = verify(folder, folder / "reference.safetensors", options);
    ASSERT_EQ(report.prompts.size(), 2U);
    EXPECT_LE(report.largest_error(), 1e-4) << "chunks of " << chunk;
  }
}

// A block holds the latents and the index keys of every layer: whatever copies, saves or shares it
// includes both.
TEST(SparseAttention, IndexKeysAreInTheBlocks) {
  OpenModel open(golden_checkpoint("deepseek-v3.2"));
  open.model().allocate_cache(3);
  constexpr auto kRowBytes = std::size_t{64 + 16 + 32} * 2;  // latent, rotated part, index key; f16
  EXPECT_EQ(open.model().cache_bytes_per_block(),
            3 * static_cast<std::size_t>(open.model().block_tokens()) * kRowBytes);
  EXPECT_EQ(open.model().cache_form().find("F16 80+0, F16 32+0"), 0U) << open.model().cache_form();
}

TEST(Model, MeasuresTimePerModule) {
  const auto folder = golden_checkpoint("qwen2");
  OpenModel open(folder);
  const TokenIds prompt = {1, 2, 3};
  run_prompts(open.model(), {&prompt, 1});
  EXPECT_EQ(open.model().profiler(), nullptr);
  open.model().start_profiling();
  run_prompts(open.model(), {&prompt, 1}, {.chunk = 1, .hidden = false});
  const auto& entries = open.model().profiler()->entries();
  for (const char* module : {"model.layers.0", "model.layers.2.self_attn.o_proj", "lm_head"}) {
    ASSERT_TRUE(entries.contains(module)) << module;
    EXPECT_EQ(entries.at(module).calls, 3) << module;
  }
}

TEST(Model, RunsAgainAfterUnloadAndLoad) {
  const auto folder = golden_checkpoint("llama");
  OpenModel open(folder);
  const TokenIds prompt = {5, 6, 7, 8};
  const PromptRun before = run_prompts(open.model(), {&prompt, 1}).front();
  open.model().unload();
  open.model().load();
  const PromptRun after = run_prompts(open.model(), {&prompt, 1}).front();
  EXPECT_TRUE(is_same_bits(before.logits, after.logits));
}

}  // namespace
}  // namespace graft::models
