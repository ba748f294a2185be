#include "graft/engine/sampling/steps.h"

#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "graft/engine/sampler.h"
#include "graft/formats/weight_source.h"
#include "graft/models/families/family.h"
#include "graft/models/weights/checkpoint.h"
#include "graft/testing/shared_data.h"
#include "graft/tokenizer/tokenizer.h"

namespace graft::engine {
namespace {

using Step = SamplingStep;
using StepProbs = std::map<TokenId, double>;

StepProbs step_probs_of(const std::vector<double>& probabilities,
                        const SamplingParams& params,
                        const SamplingContext& context = {}) {
  std::vector<float> logits;
  for (const double p : probabilities)
    logits.push_back(static_cast<float>(std::log(p)));
  SamplingContext with_params = context;
  with_params.params = &params;
  StepProbs by_token;
  for (const TokenProb& each : distribution(logits, with_params))
    by_token[each.token] = each.prob;
  return by_token;
}

void expect_step_probs(const StepProbs& got, const StepProbs& want) {
  ASSERT_EQ(got.size(), want.size());
  for (const auto& [token, probability] : want) {
    ASSERT_TRUE(got.contains(token)) << token;
    EXPECT_NEAR(got.at(token), probability, 1e-6) << token;
  }
}

SamplingParams with(std::vector<Step> steps) {
  SamplingParams params;
  params.steps = std::move(steps);
  return params;
}

const std::vector<double> kFiveTokens = {0.1, 0.3, 0.4, 0.15, 0.05};

TEST(SamplingSteps, TheirOrderCounts) {
  SamplingParams params = with({Step::TopK, Step::TopP});
  params.top_k = 3;
  params.top_p = 0.8;  // of three tokens, which have 0.85
  expect_step_probs(step_probs_of(kFiveTokens, params), {{1, 3.0 / 7}, {2, 4.0 / 7}});
  params.steps = {Step::TopP, Step::TopK};  // of all
  expect_step_probs(step_probs_of(kFiveTokens, params),
                    {{1, 0.3 / 0.85}, {2, 0.4 / 0.85}, {3, 0.15 / 0.85}});
  params = with({Step::MinP, Step::Temperature});
  params.min_p = 0.3;
  params.temperature = 0.5;
  const double sum = 0.3 * 0.3 + 0.4 * 0.4 + 0.15 * 0.15;
  expect_step_probs(step_probs_of(kFiveTokens, params),
                    {{1, 0.09 / sum}, {2, 0.16 / sum}, {3, 0.0225 / sum}});
  params.steps = {Step::Temperature, Step::MinP};
  expect_step_probs(step_probs_of(kFiveTokens, params), {{1, 0.09 / 0.25}, {2, 0.16 / 0.25}});
}

TEST(SamplingSteps, OnlyThoseOfTheListApply) {
  SamplingParams params = with({});
  params.top_k = 1;
  params.min_p = 0.9;
  expect_step_probs(step_probs_of(kFiveTokens, params),
                    {{0, 0.1}, {1, 0.3}, {2, 0.4}, {3, 0.15}, {4, 0.05}});
  params = with({Step::TopP, Step::Temperature});
  params.temperature = 0;
  expect_step_probs(step_probs_of(kFiveTokens, params), {{2, 1.0}});
}

// In the usual order they are what they are without a list.
TEST(SamplingSteps, AgreeWithTheUsualOrder) {
  SamplingParams params;
  params.top_k = 4;
  params.temperature = 0.8;
  params.min_p = 0.2;
  params.top_p = 0.9;
  params.typical_p = 0.8;
  const StepProbs want = step_probs_of(kFiveTokens, params);
  params.steps = {Step::TopK, Step::Temperature, Step::MinP, Step::TopP, Step::TypicalP};
  expect_step_probs(step_probs_of(kFiveTokens, params), want);
}

// Tokens of the bundled vocabulary that begin alike.
class Infill : public testing::Test {
 protected:
  void SetUp() override {
    const models::Checkpoint checkpoint(formats::open_weights(bundled_sprout()));
    tokenizer_ = std::make_unique<tokenizer::Tokenizer>(checkpoint.tokenizer(),
                                                        models::pre_tokenizer_names());
    for (TokenId id = 0; id < tokenizer_->vocab_size(); ++id) {
      const std::string text(tokenizer_->bytes(id));
      if (text == "t") short_ = id;
      if (text == "the") long_ = id;
      if (text == "w") other_ = id;
    }
    ASSERT_TRUE(short_ && long_ && other_);
  }
  // The probabilities of "t", "the", "w" and the end.
  StepProbs infilled(double a, double b, double c, double end, SamplingParams params) const {
    std::vector<double> all(static_cast<std::size_t>(tokenizer_->vocab_size()), 0.0);
    const auto at = [&](TokenId token) -> double& { return all[static_cast<std::size_t>(token)]; };
    at(*short_) = a;
    at(*long_) = b;
    at(*other_) = c;
    at(kEnd) = end;
    const std::vector<TokenId> ends = {kEnd};
    return step_probs_of(all, params, {.eos_token_ids = ends, .tokenizer = tokenizer_.get()});
  }

  static constexpr TokenId kEnd = 0;
  std::unique_ptr<tokenizer::Tokenizer> tokenizer_;
  std::optional<TokenId> short_;
  std::optional<TokenId> long_;
  std::optional<TokenId> other_;
};

TEST_F(Infill, JoinsTextsThatBeginAlike) {
  const SamplingParams params = with({Step::Infill});
  expect_step_probs(infilled(0.35, 0.2, 0.45, 0, params), {{*short_, 0.55}, {*other_, 0.45}});
  expect_step_probs(infilled(0.2, 0.35, 0.45, 0, params), {{*long_, 0.55}, {*other_, 0.45}});
}

TEST_F(Infill, LeavesOutUnlikelyTexts) {
  const SamplingParams params = with({Step::Infill});
  expect_step_probs(infilled(0.6, 0.25, 0.15, 0, params), {{*short_, 1.0}});
  // Of two, those below a third.
  expect_step_probs(infilled(0.7, 0, 0.25, 0.05, params),
                    {{*short_, 0.7 / 0.75}, {kEnd, 0.05 / 0.75}});
}

TEST_F(Infill, EndsRatherThanGuessing) {
  SamplingParams params = with({Step::Infill});
  expect_step_probs(infilled(0.3, 0.2, 0.35, 0.15, params), {{kEnd, 1.0}});
  // Six texts, all unlikely; the end was not among the likeliest.
  params = with({Step::TopK, Step::Infill});
  params.top_k = 6;
  std::vector<double> probs(static_cast<std::size_t>(tokenizer_->vocab_size()), 0.0);
  probs[kEnd] = 1e-6;
  std::optional<TokenId> best;
  for (TokenId id = 0; id < tokenizer_->vocab_size(); ++id) {
    const std::string text(tokenizer_->bytes(id));
    if (text.size() != 1 || text[0] < 'a' || text[0] > 'f') continue;
    probs[static_cast<std::size_t>(id)] = text == "c" ? 0.18 : 0.16;
    if (text == "c") best = id;
  }
  const std::vector<TokenId> ends = {kEnd};
  const SamplingContext context = {.eos_token_ids = ends, .tokenizer = tokenizer_.get()};
  expect_step_probs(step_probs_of(probs, params, context), {{kEnd, 1.0}});
  params.ignore_eos = true;
  expect_step_probs(step_probs_of(probs, params, context), {{*best, 1.0}});
}

}  // namespace
}  // namespace graft::engine
