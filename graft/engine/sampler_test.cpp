#include "graft/engine/sampler.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <set>

#include <gtest/gtest.h>

#include "graft/base/error.h"
#include "graft/testing/sample_row.h"

namespace graft::engine {
namespace {

std::vector<float> logits_of(const std::vector<double>& probabilities) {
  std::vector<float> logits;
  for (const double p : probabilities)
    logits.push_back(static_cast<float>(std::log(p)));
  return logits;
}

std::map<TokenId, double> probs_of(std::vector<float> logits,
                                   const SamplingParams& params,
                                   const std::vector<TokenId>& output = {},
                                   const std::vector<TokenId>& prompt = {}) {
  std::map<TokenId, double> by_token;
  for (const TokenProb& each :
       distribution(logits, {.params = &params, .prompt = prompt, .output = output}))
    by_token[each.token] = each.prob;
  return by_token;
}

void expect_probs(const std::map<TokenId, double>& got, const std::map<TokenId, double>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (const auto& [token, probability] : want) {
    ASSERT_TRUE(got.contains(token)) << token;
    EXPECT_NEAR(got.at(token), probability, 1e-6) << token;
  }
}

const std::vector<double> kExample = {0.1, 0.3, 0.4, 0.15, 0.05};

TEST(Sampler, TopPKeepsSmallestSetReachingP) {
  SamplingParams params;
  params.top_p = 0.8;
  expect_probs(probs_of(logits_of(kExample), params),
               {{1, 0.3 / 0.85}, {2, 0.4 / 0.85}, {3, 0.15 / 0.85}});
  params.top_p = 0.39;
  expect_probs(probs_of(logits_of(kExample), params), {{2, 1.0}});
}

TEST(Sampler, TopKMinPAndTypicalFilter) {
  SamplingParams params;
  params.top_k = 2;
  expect_probs(probs_of(logits_of(kExample), params), {{1, 3.0 / 7}, {2, 4.0 / 7}});
  params = {};
  params.min_p = 0.3;  // of 0.4: 0.12 and more
  expect_probs(probs_of(logits_of(kExample), params),
               {{1, 0.3 / 0.85}, {2, 0.4 / 0.85}, {3, 0.15 / 0.85}});
  params = {};
  // Entropy 1.39: the surprise of 0.3 (1.20) is nearest, then 0.4 (0.92), then 0.15 (1.90).
  params.typical_p = 0.5;
  expect_probs(probs_of(logits_of(kExample), params), {{1, 3.0 / 7}, {2, 4.0 / 7}});
}

TEST(Sampler, TemperatureSharpensAndZeroIsGreedy) {
  SamplingParams params;
  params.temperature = 0.5;
  const auto sharp = probs_of(logits_of({0.25, 0.75}), params);
  EXPECT_NEAR(sharp.at(1), 0.9, 1e-6);  // 9 : 1
  params.temperature = 0;
  expect_probs(probs_of(logits_of(kExample), params), {{2, 1.0}});
}

TEST(Sampler, TopPAfterTopKRenormalizes) {
  SamplingParams params;
  params.top_k = 2;
  params.top_p = 0.5;  // of 4/7 and 3/7
  expect_probs(probs_of(logits_of(kExample), params), {{2, 1.0}});
}

TEST(Sampler, TopPMatchesFullSort) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal(0, 3);
  std::vector<float> logits(5000);
  for (float& logit : logits)
    logit = normal(random);
  SamplingParams all;
  std::vector<std::pair<double, TokenId>> sorted;
  for (const auto& [token, p] : probs_of(logits, all))
    sorted.emplace_back(-p, token);
  std::ranges::sort(sorted);
  for (const double top_p : {0.1, 0.5, 0.9, 0.999}) {
    SamplingParams params;
    params.top_p = top_p;
    const auto got = probs_of(logits, params);
    double sum = 0;
    std::size_t count = 0;
    while (sum < top_p)
      sum -= sorted[count++].first;
    ASSERT_EQ(got.size(), count);
    for (std::size_t i = 0; i < count; ++i)
      EXPECT_TRUE(got.contains(sorted[i].second));
  }
}

TEST(Sampler, PenaltiesAndBiasAddUp) {
  SamplingParams params;
  params.temperature = 0;
  params.repetition_penalty = 2;
  // Logits 3 and 2: token 0 is in the prompt, its logit drops to 1.5.
  EXPECT_TRUE(probs_of({3, 2}, params, {}, {0}).contains(1));
  EXPECT_TRUE(probs_of({-1, -1.5}, params, {0}).contains(1));
  params = {};
  params.temperature = 0;
  params.frequency_penalty = 0.4;
  params.presence_penalty = 0.3;
  EXPECT_TRUE(probs_of({3, 2}, params, {0}).contains(0));         // 3 - 0.7
  EXPECT_TRUE(probs_of({3, 2}, params, {0, 0}).contains(1));      // 3 - 1.1
  EXPECT_TRUE(probs_of({3, 2}, params, {}, {0, 0}).contains(0));  // the prompt does not count
  params = {};
  params.temperature = 0;
  params.logit_bias = {{1, 1.5F}, {2, 1e9F}};  // the second is clamped to 100
  EXPECT_TRUE(probs_of({3, 2, -98.5}, params).contains(1));
}

TEST(Sampler, MasksDisallowedTokens) {
  SamplingParams params;
  params.temperature = 0;
  params.allowed_token_ids = {3, 1};
  EXPECT_TRUE(probs_of(logits_of(kExample), params).contains(1));
  params = {};
  params.temperature = 0;
  params.bad_words = {{2}, {7, 1}};
  EXPECT_TRUE(probs_of(logits_of(kExample), params, {7}).contains(3));
  EXPECT_TRUE(probs_of(logits_of(kExample), params, {8}).contains(1));
  params = {};
  params.temperature = 0;
  params.min_tokens = 2;
  params.stop_token_ids = {1};
  const std::vector<TokenId> eos = {2};
  std::vector<float> logits = logits_of(kExample);
  const std::vector<TokenId> one = {0};
  EXPECT_EQ(sample(logits, {.params = &params, .output = one, .eos_token_ids = eos}), 3);
  logits = logits_of(kExample);
  const std::vector<TokenId> two = {0, 0};
  EXPECT_EQ(sample(logits, {.params = &params, .output = two, .eos_token_ids = eos}), 2);
}

TEST(Sampler, FailsWhenAllTokensAreMaskedOrNan) {
  SamplingParams params;
  params.allowed_token_ids = {2};
  params.bad_words = {{2}};
  std::vector<float> logits = logits_of(kExample);
  EXPECT_EQ(sample(logits, {.params = &params}), std::nullopt);
  params = {};
  std::vector<float> broken(4, std::numeric_limits<float>::quiet_NaN());
  EXPECT_EQ(sample(broken, {.params = &params}), std::nullopt);
}

// Rows with a wide range, ties, masked tokens, few or no tokens left, NaN, infinity and -0.
std::vector<float> row_of_kind(int kind, std::mt19937& random) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  std::normal_distribution<float> normal(0, kind == 1 ? 300.0F : 3.0F);
  std::vector<float> logits(600);
  for (float& logit : logits)
    logit = kind == 2 ? std::round(normal(random)) : normal(random);
  const auto random_logit = [&]() -> float& { return logits[random() % logits.size()]; };
  if (kind == 3 || kind == 4) std::ranges::fill(logits, -kInfinity);
  if (kind == 4) random_logit() = random_logit() = 1.5F;
  if (kind == 5) random_logit() = kNan;
  if (kind == 6) random_logit() = kInfinity;
  if (kind == 7) std::fill(logits.begin() + 5, logits.end() - 7, -kInfinity);
  if (kind == 8) random_logit() = random_logit() = -kNan;
  if (kind == 9) std::ranges::fill(logits, 0.0F);
  if (kind == 9) random_logit() = random_logit() = -0.0F;
  return logits;
}

// With filters, and with changes of single logits in a part of the rounds.
SamplingParams random_params(std::mt19937& random) {
  SamplingParams params;
  const auto one_in = [&](unsigned n) { return random() % n == 0; };
  const auto token = [&] { return static_cast<TokenId>(random() % 600); };
  params.temperature = one_in(4) ? 0.0 : 0.1 + 0.01 * static_cast<double>(random() % 300);
  if (!one_in(3)) params.top_k = 1 + static_cast<std::int64_t>(random() % 700);
  if (one_in(2)) params.top_p = 0.0503 + 0.01 * static_cast<double>(random() % 95);
  if (one_in(3)) params.min_p = 0.001 * static_cast<double>(random() % 300);
  if (one_in(5)) params.repetition_penalty = 1.3;
  if (one_in(5)) params.presence_penalty = -0.7;
  if (one_in(5)) params.frequency_penalty = 0.9;
  if (one_in(5)) params.logit_bias = {{token(), 3.0F}, {7, -200.0F}, {8, 2.5F}};
  if (one_in(6)) params.bad_words = {{7}, {3, 9}, {4, 5, 6}};
  if (one_in(6)) params.allowed_token_ids = {1, 2, 3, 7, 8, 9, token()};
  params.min_tokens = static_cast<std::int64_t>(random() % 3);
  params.stop_token_ids = {token()};
  return params;
}

// kind 5, 6 and 8 have NaN and infinity, which masks and penalties may hide.
TEST(Sampler, DeviceRowsSampleTheSameToken) {
  constexpr std::array<TokenId, 2> kEos = {3, 4};
  std::mt19937 random(17);
  std::set<TokenId> distinct;
  ops::BatchSampling sampling;
  for (int round = 0; round < 4000; ++round) {
    const int kind = round % 10;
    std::vector<float> logits = row_of_kind(kind, random);
    const SamplingParams params = random_params(random);
    std::vector<TokenId> output(random() % 5);
    for (TokenId& token : output)
      token = static_cast<TokenId>(random() % 12);
    const std::vector<TokenId> prompt = {1, 9, 250};
    std::vector<std::uint32_t> allowed;  // of structured output, in a part of the rounds
    if (round % 3 == 0) allowed.resize((logits.size() + 31) / 32);
    for (std::uint32_t& word : allowed)
      word = static_cast<std::uint32_t>(random() & random());
    const SamplingContext context = {.params = &params,
                                     .prompt = prompt,
                                     .output = output,
                                     .eos_token_ids = kEos,
                                     .seed = random(),
                                     .allowed = allowed};
    add_device_row(context, static_cast<std::int64_t>(output.size()), sampling);
    const TokenId got =
        ops::testing::sample_row(logits, sampling.rows.back(), sampling.edits, sampling.masks);
    const TokenId want = sample(logits, context).value_or(-1);
    if (kind != 5 && kind != 6 && kind != 8) {
      ASSERT_EQ(got, want) << "row of kind " << kind << ", round " << round;
    }
    distinct.insert(got);
  }
  EXPECT_GT(distinct.size(), 100U);
  EXPECT_TRUE(distinct.contains(-1));
}

TEST(Sampler, NamesWhatDevicesCannotSample) {
  const auto needs = [](auto change) {
    SamplingParams params;
    params.top_k = 20;
    change(params);
    return needs_host(params);
  };
  EXPECT_FALSE(needs([](auto& p) { p.repetition_penalty = 1.1; }));
  EXPECT_FALSE(needs([](auto& p) { p.allowed_token_ids = {1}; }));
  EXPECT_TRUE(needs([](auto& p) { p.logprobs = 0; }));
  EXPECT_TRUE(needs([](auto& p) { p.typical_p = 0.9; }));
  EXPECT_FALSE(needs([](auto& p) {
    p.typical_p = 0.9;
    p.temperature = 0;
  }));
}

TEST(Sampler, NamesWhatDependsOnTheOutput) {
  const auto depends = [](auto change) {
    SamplingParams params;
    change(params);
    return depends_on_output(params);
  };
  EXPECT_FALSE(depends([](auto& p) { p.min_tokens = 5; }));
  EXPECT_FALSE(depends([](auto& p) { p.bad_words = {{1}}; }));
  EXPECT_FALSE(depends([](auto& p) { p.logit_bias = {{1, 2.0F}}; }));
  EXPECT_TRUE(depends([](auto& p) { p.bad_words = {{1}, {1, 2}}; }));
  EXPECT_TRUE(depends([](auto& p) { p.repetition_penalty = 1.1; }));
  EXPECT_TRUE(depends([](auto& p) { p.presence_penalty = 1; }));
  EXPECT_TRUE(depends([](auto& p) { p.frequency_penalty = -1; }));
}

TEST(Sampler, DrawsFollowTheDistribution) {
  SamplingParams params;
  constexpr int kDraws = 40'000;
  std::vector<int> counts(kExample.size());
  std::vector<TokenId> output;
  for (int i = 0; i < kDraws; ++i) {
    std::vector<float> logits = logits_of(kExample);
    // Half are successive draws of one request, half are the first draws of many requests.
    const bool is_long = i % 2 == 0;
    if (is_long) output.push_back(0);
    const std::vector<TokenId> none;
    const auto token = sample(logits, {.params = &params,
                                       .output = is_long ? std::span<const TokenId>(output) : none,
                                       .seed = is_long ? 1U : static_cast<std::uint64_t>(i)});
    ++counts[static_cast<std::size_t>(*token)];
  }
  double chi_square = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const double expected = kExample[i] * kDraws;
    chi_square += (counts[i] - expected) * (counts[i] - expected) / expected;
  }
  EXPECT_LT(chi_square, 18.47);  // 4 degrees of freedom: exceeded by one run in a thousand
}

TEST(Sampler, UniformDrawsAreUniformAndIndependent) {
  constexpr int kCells = 16;
  constexpr int kDraws = 64'000;
  // Pairs of adjacent draws: of one seed, and of adjacent seeds.
  for (const bool along_seeds : {false, true}) {
    std::vector<int> counts(kCells * kCells);
    for (std::uint64_t i = 0; i < kDraws; ++i) {
      const double a = along_seeds ? uniform(i, 5) : uniform(9, i);
      const double b = along_seeds ? uniform(i + 1, 5) : uniform(9, i + 1);
      ASSERT_GE(a, 0.0);
      ASSERT_LT(a, 1.0);
      ++counts[static_cast<std::size_t>(a * kCells) * kCells +
               static_cast<std::size_t>(b * kCells)];
    }
    double chi_square = 0;
    const double expected = static_cast<double>(kDraws) / (kCells * kCells);
    for (const int count : counts)
      chi_square += (count - expected) * (count - expected) / expected;
    EXPECT_LT(chi_square, 330);  // 255 degrees of freedom, one in a thousand
  }
}

TEST(Sampler, SameSeedGivesSameToken) {
  SamplingParams params;
  const auto draw = [&](std::uint64_t seed) {
    std::vector<float> logits = logits_of(kExample);
    return *sample(logits, {.params = &params, .seed = seed});
  };
  std::map<TokenId, int> seen;
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    EXPECT_EQ(draw(seed), draw(seed));
    ++seen[draw(seed)];
  }
  EXPECT_GE(seen.size(), 3U);
}

TEST(Sampler, LogprobsUseUnmodifiedLogits) {
  const TokenLogprobs got = logprobs_of(logits_of(kExample), 0, 3);
  EXPECT_NEAR(got.logprob, std::log(0.1), 1e-6);
  ASSERT_EQ(got.top.size(), 3U);
  EXPECT_EQ(got.top[0].first, 2);
  EXPECT_NEAR(got.top[0].second, std::log(0.4), 1e-6);
  EXPECT_EQ(got.top[2].first, 3);
  EXPECT_EQ(got.rank, 4);
  EXPECT_EQ(logprobs_of(logits_of(kExample), 2, 0).rank, 1);
  // Ties: lower ids first.
  EXPECT_EQ(logprobs_of(std::vector<float>{1, 1, 1}, 2, 2).top[0].first, 0);
  EXPECT_EQ(logprobs_of(std::vector<float>{1, 1, 1}, 2, 2).rank, 3);
}

TEST(Sampler, HasAllowedTokenAppliesMasks) {
  const std::vector<TokenId> eos = {7};
  EXPECT_TRUE(has_allowed_token({}, eos, 8));
  SamplingParams params;
  params.allowed_token_ids = {7};
  EXPECT_TRUE(has_allowed_token(params, eos, 8));
  params.min_tokens = 1;
  EXPECT_FALSE(has_allowed_token(params, eos, 8)) << "only the masked EOS token is allowed";
  params.allowed_token_ids = {6, 7};
  EXPECT_TRUE(has_allowed_token(params, eos, 8));
  params.bad_words = {{6}};
  EXPECT_FALSE(has_allowed_token(params, eos, 8));
  params.bad_words = {{5, 6}};
  EXPECT_TRUE(has_allowed_token(params, eos, 8));
  params = {};
  params.min_tokens = 1;
  params.stop_token_ids = {0, 1, 2, 3, 4, 5, 6};
  EXPECT_FALSE(has_allowed_token(params, eos, 8));
}

TEST(SamplingParams, ErrorListsAllProblems) {
  SamplingParams params;
  params.top_p = 0;
  params.temperature = -1;
  params.stop_token_ids = {9};
  params.stop = {""};
  try {
    validate(params, 8);
    FAIL();
  } catch (const Error& error) {
    const std::string text = error.what();
    for (const char* part :
         {"top_p is 0", "temperature is -1", "stop_token_ids is 9", "one of stop"})
      EXPECT_NE(text.find(part), std::string::npos) << text;
  }
  params = {};
  params.temperature = 0;
  params.n = 2;
  EXPECT_THROW(validate(params, 8), Error);
  params = {};
  params.temperature = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THROW(validate(params, 8), Error);
  EXPECT_NO_THROW(validate({}, 8));
  params = {};
  params.allowed_token_ids.assign(9, 1);
  EXPECT_THROW(validate(params, 8), Error);
}

TEST(SamplingParams, ErrorListIsTruncated) {
  SamplingParams params;
  params.stop_token_ids.assign(1000, 5000);
  try {
    validate(params, 1000);
    FAIL();
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_LT(text.size(), 1000U);
    EXPECT_TRUE(text.ends_with("; and 992 more")) << text;
  }
}

}  // namespace
}  // namespace graft::engine
