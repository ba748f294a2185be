#include "graft/engine/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <unordered_map>

namespace graft::engine {
namespace {

constexpr float kForbidden = -std::numeric_limits<float>::infinity();

float& at(std::span<float> logits, TokenId token) {
  return logits[static_cast<std::size_t>(token)];
}

void keep_allowed(std::span<float> logits, const SamplingParams& params) {
  if (params.allowed_token_ids.empty()) return;
  std::vector<std::pair<TokenId, float>> kept;
  for (const TokenId token : params.allowed_token_ids)
    kept.emplace_back(token, at(logits, token));
  std::ranges::fill(logits, kForbidden);
  for (const auto& [token, logit] : kept)
    at(logits, token) = logit;
}

void forbid_bad_words(std::span<float> logits, const SamplingContext& context) {
  for (const std::vector<TokenId>& word : context.params->bad_words) {
    const std::size_t num_before = word.size() - 1;
    if (context.output.size() < num_before) continue;
    if (std::ranges::equal(context.output.last(num_before), std::span(word).first(num_before)))
      at(logits, word.back()) = kForbidden;
  }
}

void forbid_early_end(std::span<float> logits, const SamplingContext& context) {
  const SamplingParams& params = *context.params;
  if (static_cast<std::int64_t>(context.output.size()) >= params.min_tokens) return;
  for (const TokenId token : params.stop_token_ids)
    at(logits, token) = kForbidden;
  for (const TokenId token : context.end_tokens)
    at(logits, token) = kForbidden;
}

void add_bias(std::span<float> logits, const SamplingParams& params) {
  constexpr float kMax = 100.0F;
  for (const auto& [token, bias] : params.logit_bias)
    at(logits, token) += std::clamp(bias, -kMax, kMax);
}

void penalize(std::span<float> logits, const SamplingContext& context) {
  const SamplingParams& params = *context.params;
  if (params.repetition_penalty != 1.0) {
    std::unordered_map<TokenId, bool> seen;
    const auto penalty = static_cast<float>(params.repetition_penalty);
    for (const auto tokens : {context.prompt, context.output}) {
      for (const TokenId token : tokens) {
        if (!seen.emplace(token, true).second) continue;
        float& logit = at(logits, token);
        logit = logit > 0 ? logit / penalty : logit * penalty;
      }
    }
  }
  if (params.presence_penalty == 0.0 && params.frequency_penalty == 0.0) return;
  std::unordered_map<TokenId, int> counts;
  for (const TokenId token : context.output)
    ++counts[token];
  for (const auto& [token, count] : counts) {
    at(logits, token) -=
        static_cast<float>(params.presence_penalty + params.frequency_penalty * count);
  }
}

void apply_all(std::span<float> logits, const SamplingContext& context) {
  keep_allowed(logits, *context.params);
  forbid_bad_words(logits, context);
  forbid_early_end(logits, context);
  add_bias(logits, *context.params);
  penalize(logits, context);
}

// The first that is no number, else the first of the largest.
TokenId best(std::span<const float> logits) {
  std::size_t best = 0;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (logits[i] <= logits[best]) continue;
    best = i;
    if (std::isnan(logits[i])) break;
  }
  return static_cast<TokenId>(best);
}

// TopK of a row of numbers, with their memory.
struct OwnLikelyTokens {
  std::vector<TokenId> tokens;
  std::vector<float> logits;
};

OwnLikelyTokens likeliest(std::span<const float> logits, std::int64_t count) {
  const auto at = [&](TokenId token) { return logits[static_cast<std::size_t>(token)]; };
  const auto is_before = [&](TokenId a, TokenId b) {
    return at(a) != at(b) ? at(a) > at(b) : a < b;
  };
  OwnLikelyTokens likely;
  likely.tokens.resize(logits.size());
  std::iota(likely.tokens.begin(), likely.tokens.end(), 0);
  const auto end = likely.tokens.begin() + count;
  std::ranges::nth_element(likely.tokens, end - 1, is_before);
  likely.tokens.erase(end, likely.tokens.end());
  std::ranges::sort(likely.tokens, is_before);
  for (const TokenId token : likely.tokens)
    likely.logits.push_back(at(token));
  return likely;
}

using Candidates = std::vector<Candidate>;

// The more likely first; of equal ones the lower id, so that the order is one.
bool is_likelier(const Candidate& a, const Candidate& b) {
  return a.probability != b.probability ? a.probability > b.probability : a.token < b.token;
}

// Softmax at a temperature, of these tokens or, without, of all. Candidates that min_p rules out
// are not even listed.
Candidates softmax(std::span<const float> logits,
                   std::span<const TokenId> tokens,
                   const SamplingParams& params) {
  const double max = *std::ranges::max_element(logits);
  // p / p_max = exp((logit - max) / temperature) >= min_p
  const double threshold = params.min_p > 0 ? std::log(params.min_p) : -1e4;
  Candidates candidates;
  double sum = 0;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const double exponent = (static_cast<double>(logits[i]) - max) / params.temperature;
    if (!(exponent >= threshold)) continue;
    const TokenId token = tokens.empty() ? static_cast<TokenId>(i) : tokens[i];
    candidates.push_back({.token = token, .probability = std::exp(exponent)});
    sum += candidates.back().probability;
  }
  for (Candidate& candidate : candidates)
    candidate.probability /= sum;
  return candidates;
}

void renormalize(Candidates& candidates) {
  double sum = 0;
  for (const Candidate& candidate : candidates)
    sum += candidate.probability;
  for (Candidate& candidate : candidates)
    candidate.probability /= sum;
}

// Sorts only as far as it must: the likeliest few carry most of the sum.
void keep_top_p(Candidates& candidates, double p) {
  if (p >= 1.0) return;
  std::size_t num_sorted = 0;
  double sum = 0;
  std::size_t num_kept = 0;
  while (num_kept < candidates.size() && sum < p) {
    if (num_kept == num_sorted) {
      num_sorted = std::min(candidates.size(), std::max<std::size_t>(64, 4 * num_sorted));
      std::ranges::partial_sort(candidates.begin() + static_cast<std::ptrdiff_t>(num_kept),
                                candidates.begin() + static_cast<std::ptrdiff_t>(num_sorted),
                                candidates.end(), is_likelier);
    }
    sum += candidates[num_kept++].probability;
  }
  candidates.resize(num_kept);
  renormalize(candidates);
}

// Keeps those whose surprise is nearest to the expected one, until they carry p.
void keep_typical(Candidates& candidates, double p) {
  if (p >= 1.0) return;
  double entropy = 0;
  for (const Candidate& candidate : candidates) {
    if (candidate.probability > 0)
      entropy -= candidate.probability * std::log(candidate.probability);
  }
  const auto distance = [&](const Candidate& candidate) {
    return std::abs(-std::log(candidate.probability) - entropy);
  };
  std::ranges::sort(candidates, [&](const Candidate& a, const Candidate& b) {
    const double first = distance(a);
    const double second = distance(b);
    return first != second ? first < second : a.token < b.token;
  });
  double sum = 0;
  std::size_t num_kept = 0;
  while (num_kept < candidates.size() && sum < p)
    sum += candidates[num_kept++].probability;
  candidates.resize(num_kept);
  renormalize(candidates);
}

// All that comes after top_k.
Candidates narrow(Candidates candidates, const SamplingParams& params) {
  if (params.min_p > 0) renormalize(candidates);
  keep_top_p(candidates, params.top_p);
  keep_typical(candidates, params.typical_p);
  std::ranges::sort(candidates, {}, &Candidate::token);
  return candidates;
}

// The first are the likeliest, so nothing depends on how many more were found, or where.
Candidates distribution_of(const TopK& likely, const SamplingParams& params) {
  if (!std::isfinite(likely.logits.front())) return {};
  if (params.is_greedy()) return {{.token = likely.tokens.front(), .probability = 1.0}};
  const auto count = static_cast<std::size_t>(params.top_k);
  return narrow(softmax(likely.logits.first(count), likely.tokens.first(count), params), params);
}

std::optional<TokenId> draw(const Candidates& candidates, const SamplingContext& context) {
  if (candidates.empty()) return std::nullopt;
  double left = uniform(context.seed, context.output.size());
  for (const Candidate& candidate : candidates) {
    left -= candidate.probability;
    if (left < 0) return candidate.token;
  }
  // Rounding: the probabilities summed to a hair less than 1.
  return std::ranges::max_element(candidates, {}, &Candidate::probability)->token;
}

}  // namespace

double uniform(std::uint64_t seed, std::uint64_t index) {
  // splitmix64 over both: every draw stands alone, so nothing needs to be kept between them.
  std::uint64_t x = seed + 0x9E3779B97F4A7C15U * (index + 1);
  for (int round = 0; round < 2; ++round) {
    x = (x ^ (x >> 30U)) * 0xBF58476D1CE4E5B9U;
    x = (x ^ (x >> 27U)) * 0x94D049BB133111EBU;
    x ^= x >> 31U;
    x += 0x9E3779B97F4A7C15U ^ seed;
  }
  return static_cast<double>(x >> 11U) * 0x1.0p-53;
}

std::vector<Candidate> distribution(std::span<float> logits, const SamplingContext& context) {
  apply_all(logits, context);
  const SamplingParams& params = *context.params;
  const TokenId likeliest_one = best(logits);
  if (!std::isfinite(at(logits, likeliest_one))) return {};
  if (params.is_greedy()) return {{.token = likeliest_one, .probability = 1.0}};
  if (params.top_k <= 0 || params.top_k >= static_cast<std::int64_t>(logits.size()))
    return narrow(softmax(logits, {}, params), params);
  const OwnLikelyTokens likely = likeliest(logits, params.top_k);
  return distribution_of({.tokens = likely.tokens, .logits = likely.logits}, params);
}

bool leaves_choice(const SamplingParams& params,
                   std::span<const TokenId> end_tokens,
                   std::int64_t vocab_size) {
  if (params.allowed_token_ids.empty() && params.bad_words.empty() && params.min_tokens == 0)
    return true;  // as in nearly all requests, which need no look at the vocabulary
  std::vector<float> logits(static_cast<std::size_t>(vocab_size), 0.0F);
  const SamplingContext context = {.params = &params, .end_tokens = end_tokens};
  keep_allowed(logits, params);
  forbid_bad_words(logits, context);
  forbid_early_end(logits, context);
  return std::ranges::any_of(logits, [](float logit) { return logit != kForbidden; });
}

std::optional<TokenId> sample(std::span<float> logits, const SamplingContext& context) {
  return draw(distribution(logits, context), context);
}

std::optional<std::int64_t> required_top_k(const SamplingParams& params, std::int64_t num_output) {
  const bool changes_logits = !params.allowed_token_ids.empty() || !params.bad_words.empty() ||
                              !params.logit_bias.empty() || num_output < params.min_tokens ||
                              params.repetition_penalty != 1.0 || params.presence_penalty != 0.0 ||
                              params.frequency_penalty != 0.0;
  if (changes_logits || params.logprobs) return std::nullopt;
  if (params.is_greedy()) return 1;
  if (params.top_k <= 0) return std::nullopt;
  return params.top_k;
}

std::optional<TokenId> sample(const TopK& likely, const SamplingContext& context) {
  return draw(distribution_of(likely, *context.params), context);
}

TokenLogprobs logprobs_of(std::span<const float> logits, TokenId token, std::int64_t num_top) {
  const double max = *std::ranges::max_element(logits);
  double sum = 0;
  for (const float logit : logits)
    sum += std::exp(static_cast<double>(logit) - max);
  const double log_sum = max + std::log(sum);
  const auto logprob = [&](TokenId id) {
    return static_cast<float>(static_cast<double>(logits[static_cast<std::size_t>(id)]) - log_sum);
  };
  TokenLogprobs out = {.token = token, .logprob = logprob(token), .top = {}};
  std::vector<TokenId> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  const auto end = ids.begin() + std::min(num_top, static_cast<std::int64_t>(ids.size()));
  std::partial_sort(ids.begin(), end, ids.end(), [&](TokenId a, TokenId b) {
    const float first = logits[static_cast<std::size_t>(a)];
    const float second = logits[static_cast<std::size_t>(b)];
    return first != second ? first > second : a < b;
  });
  for (auto id = ids.begin(); id != end; ++id)
    out.top.emplace_back(*id, logprob(*id));
  return out;
}

}  // namespace graft::engine
