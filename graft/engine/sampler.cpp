#include "graft/engine/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <unordered_map>

#include "graft/engine/sampling/steps.h"

namespace graft::engine {
namespace {

constexpr float kMasked = -std::numeric_limits<float>::infinity();

float& at(std::span<float> logits, TokenId token) {
  return logits[static_cast<std::size_t>(token)];
}

void mask_disallowed(std::span<float> logits, const SamplingParams& params) {
  if (params.allowed_token_ids.empty()) return;
  std::vector<std::pair<TokenId, float>> kept;
  for (const TokenId token : params.allowed_token_ids)
    kept.emplace_back(token, at(logits, token));
  std::ranges::fill(logits, kMasked);
  for (const auto& [token, logit] : kept)
    at(logits, token) = logit;
}

void mask_by_grammar(std::span<float> logits, std::span<const std::uint32_t> allowed) {
  if (allowed.empty()) return;
  constexpr std::size_t kBits = 32;
  for (std::size_t word = 0; word * kBits < logits.size(); ++word) {
    const std::span<float> part =
        logits.subspan(word * kBits, std::min(kBits, logits.size() - word * kBits));
    if (allowed[word] == 0) {
      std::ranges::fill(part, kMasked);
      continue;
    }
    for (std::size_t i = 0; i < part.size(); ++i)
      if ((allowed[word] >> i & 1U) == 0) part[i] = kMasked;
  }
}

// Whether the output ends with all tokens of the word but the last.
bool follows(std::span<const TokenId> output, std::span<const TokenId> word) {
  const std::size_t num_before = word.size() - 1;
  return output.size() >= num_before &&
         std::ranges::equal(output.last(num_before), word.first(num_before));
}

void mask_bad_words(std::span<float> logits, const SamplingContext& context) {
  for (const std::vector<TokenId>& word : context.params->bad_words) {
    if (follows(context.output, word)) at(logits, word.back()) = kMasked;
  }
}

void mask_early_stop(std::span<float> logits, const SamplingContext& context) {
  const SamplingParams& params = *context.params;
  if (static_cast<std::int64_t>(context.output.size()) >= params.min_tokens) return;
  for (const TokenId token : params.stop_token_ids)
    at(logits, token) = kMasked;
  for (const TokenId token : context.eos_token_ids)
    at(logits, token) = kMasked;
}

float clamped_bias(float bias) {
  constexpr float kMax = 100.0F;
  return std::clamp(bias, -kMax, kMax);
}

void add_bias(std::span<float> logits, const SamplingParams& params) {
  for (const auto& [token, bias] : params.logit_bias)
    at(logits, token) += clamped_bias(bias);
}

// Calls penalize(token, penalty) for the tokens of prompt and output: `penalty` is the sum of
// presence and frequency penalty, 0 for tokens of the prompt alone.
template <class Penalize>
void for_each_penalty(const SamplingContext& context, const Penalize& penalize) {
  const SamplingParams& params = *context.params;
  if (!has_penalties(params)) return;
  TokenCounts counted;
  if (context.counts == nullptr) {
    counted.update(context.prompt, static_cast<std::int64_t>(context.prompt.size()));
    TokenCounts output;
    output.update(context.output, 0);
    for (const auto& [token, count] : output.counts())
      counted.add(token, count);
  }
  const TokenCounts& counts = context.counts == nullptr ? counted : *context.counts;
  for (const auto& [token, count] : counts.counts()) {
    if (count == 0 && params.repetition_penalty == 1.0) continue;
    const double penalty = count == 0 ? 0
                                      : params.presence_penalty +
                                            params.frequency_penalty * static_cast<double>(count);
    penalize(token, static_cast<float>(penalty));
  }
}

void penalize(std::span<float> logits, const SamplingContext& context) {
  const auto repetition = static_cast<float>(context.params->repetition_penalty);
  for_each_penalty(context, [&](TokenId token, float penalty) {
    float& logit = at(logits, token);
    if (repetition != 1.0F) logit = logit > 0 ? logit / repetition : logit * repetition;
    logit -= penalty;
  });
}

void process_logits(std::span<float> logits, const SamplingContext& context) {
  mask_disallowed(logits, *context.params);
  mask_by_grammar(logits, context.allowed);
  mask_bad_words(logits, context);
  mask_early_stop(logits, context);
  add_bias(logits, *context.params);
  penalize(logits, context);
}

// The first NaN, else the first of the largest logits.
TokenId argmax(std::span<const float> logits) {
  std::size_t best = 0;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (logits[i] <= logits[best]) continue;
    best = i;
    if (std::isnan(logits[i])) break;
  }
  return static_cast<TokenId>(best);
}

// The k largest logits, descending; ties by ascending token id.
struct TopK {
  std::vector<TokenId> tokens;
  std::vector<float> logits;
};

TopK select_top_k(std::span<const float> logits, std::int64_t count) {
  const auto at = [&](TokenId token) { return logits[static_cast<std::size_t>(token)]; };
  const auto is_before = [&](TokenId a, TokenId b) {
    return at(a) != at(b) ? at(a) > at(b) : a < b;
  };
  TopK top_k;
  top_k.tokens.resize(logits.size());
  std::iota(top_k.tokens.begin(), top_k.tokens.end(), 0);
  const auto end = top_k.tokens.begin() + count;
  std::ranges::nth_element(top_k.tokens, end - 1, is_before);
  top_k.tokens.erase(end, top_k.tokens.end());
  std::ranges::sort(top_k.tokens, is_before);
  for (const TokenId token : top_k.tokens)
    top_k.logits.push_back(at(token));
  return top_k;
}

using TokenProbs = std::vector<TokenProb>;

// Descending probability; ties by ascending token id, so that the order is deterministic.
bool is_more_likely(const TokenProb& a, const TokenProb& b) {
  return a.prob != b.prob ? a.prob > b.prob : a.token < b.token;
}

// Softmax with temperature and min_p. `tokens` are the ids of `logits`; empty: the whole
// vocabulary.
TokenProbs softmax(std::span<const float> logits,
                   std::span<const TokenId> tokens,
                   const SamplingParams& params) {
  const double max = *std::ranges::max_element(logits);
  // p / p_max = exp((logit - max) / temperature) >= min_p
  const double threshold = params.min_p > 0 ? std::log(params.min_p) : -1e4;
  TokenProbs probs;
  double sum = 0;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const double exponent = (static_cast<double>(logits[i]) - max) / params.temperature;
    if (!(exponent >= threshold)) continue;
    const TokenId token = tokens.empty() ? static_cast<TokenId>(i) : tokens[i];
    probs.push_back({.token = token, .prob = std::exp(exponent)});
    sum += probs.back().prob;
  }
  for (TokenProb& each : probs)
    each.prob /= sum;
  return probs;
}

void renormalize(TokenProbs& probs) {
  double sum = 0;
  for (const TokenProb& each : probs)
    sum += each.prob;
  for (TokenProb& each : probs)
    each.prob /= sum;
}

// Sorts incrementally: the first few tokens usually reach p.
void filter_top_p(TokenProbs& probs, double p) {
  if (p >= 1.0) return;
  std::size_t num_sorted = 0;
  double sum = 0;
  std::size_t num_kept = 0;
  while (num_kept < probs.size() && sum < p) {
    if (num_kept == num_sorted) {
      num_sorted = std::min(probs.size(), std::max<std::size_t>(64, 4 * num_sorted));
      std::ranges::partial_sort(probs.begin() + static_cast<std::ptrdiff_t>(num_kept),
                                probs.begin() + static_cast<std::ptrdiff_t>(num_sorted),
                                probs.end(), is_more_likely);
    }
    sum += probs[num_kept++].prob;
  }
  probs.resize(num_kept);
  renormalize(probs);
}

// Typical sampling: keeps the tokens whose surprise is nearest to the entropy, up to mass p.
void filter_typical(TokenProbs& probs, double p) {
  if (p >= 1.0) return;
  double entropy = 0;
  for (const TokenProb& each : probs) {
    if (each.prob > 0) entropy -= each.prob * std::log(each.prob);
  }
  const auto distance = [&](const TokenProb& each) {
    return std::abs(-std::log(each.prob) - entropy);
  };
  std::ranges::sort(probs, [&](const TokenProb& a, const TokenProb& b) {
    const double first = distance(a);
    const double second = distance(b);
    return first != second ? first < second : a.token < b.token;
  });
  double sum = 0;
  std::size_t num_kept = 0;
  while (num_kept < probs.size() && sum < p)
    sum += probs[num_kept++].prob;
  probs.resize(num_kept);
  renormalize(probs);
}

// The filters after top_k.
TokenProbs filter(TokenProbs probs, const SamplingParams& params) {
  if (params.min_p > 0) renormalize(probs);
  filter_top_p(probs, params.top_p);
  filter_typical(probs, params.typical_p);
  std::ranges::sort(probs, {}, &TokenProb::token);
  return probs;
}

std::optional<TokenId> draw(const TokenProbs& probs, const SamplingContext& context) {
  if (probs.empty()) return std::nullopt;
  double left = uniform(context.seed, context.output.size());
  for (const TokenProb& each : probs) {
    left -= each.prob;
    if (left < 0) return each.token;
  }
  // By rounding the probabilities can sum to slightly less than 1.
  return std::ranges::max_element(probs, {}, &TokenProb::prob)->token;
}

// The changes of process_logits() as a list of edits.
class LogitEdits {
 public:
  explicit LogitEdits(const SamplingParams& params)
      : params_(params), is_restricted_(!params.allowed_token_ids.empty()) {
    for (const TokenId token : params.allowed_token_ids)
      edits_.emplace(token, kernels::LogitEdit{.token = token});
  }

  void mask_bad_words(const SamplingContext& context) {
    for (const std::vector<TokenId>& word : params_.bad_words) {
      if (follows(context.output, word)) mask(word.back());
    }
  }
  void mask_early_stop(const SamplingContext& context) {
    for (const auto& tokens :
         {std::span<const TokenId>(params_.stop_token_ids), context.eos_token_ids}) {
      for (const TokenId token : tokens)
        mask(token);
    }
  }
  void add_bias() {
    for (const auto& [token, bias] : params_.logit_bias) {
      if (kernels::LogitEdit* edit = edit_of(token)) edit->bias += clamped_bias(bias);
    }
  }
  void penalize(const SamplingContext& context) {
    for_each_penalty(context, [&](TokenId token, float penalty) {
      kernels::LogitEdit* edit = edit_of(token);
      if (edit == nullptr) return;
      if (params_.repetition_penalty != 1.0)
        edit->repetition = static_cast<float>(params_.repetition_penalty);
      edit->penalty = penalty;
    });
  }
  void append_to(std::vector<kernels::LogitEdit>& edits) const {
    for (const auto& [token, one] : edits_)
      edits.push_back(one);
  }

 private:
  void mask(TokenId token) {
    if (kernels::LogitEdit* edit = edit_of(token)) edit->bias = kMasked;
  }
  // Null: the token is not allowed and stays masked.
  kernels::LogitEdit* edit_of(TokenId token) {
    const auto found = edits_.find(token);
    if (found != edits_.end()) return &found->second;
    if (is_restricted_) return nullptr;
    return &edits_.emplace(token, kernels::LogitEdit{.token = token}).first->second;
  }

  const SamplingParams& params_;
  bool is_restricted_;  // to allowed_token_ids
  std::unordered_map<TokenId, kernels::LogitEdit> edits_;
};

}  // namespace

double uniform(std::uint64_t seed, std::uint64_t index) {
  // Counter-based (splitmix64 of seed and index): no state is kept between draws.
  std::uint64_t x = seed + 0x9E3779B97F4A7C15U * (index + 1);
  for (int round = 0; round < 2; ++round) {
    x = (x ^ (x >> 30U)) * 0xBF58476D1CE4E5B9U;
    x = (x ^ (x >> 27U)) * 0x94D049BB133111EBU;
    x ^= x >> 31U;
    x += 0x9E3779B97F4A7C15U ^ seed;
  }
  return static_cast<double>(x >> 11U) * 0x1.0p-53;
}

TokenProbs distribution(std::span<float> logits, const SamplingContext& context) {
  process_logits(logits, context);
  const SamplingParams& params = *context.params;
  const TokenId most_likely = argmax(logits);
  if (!std::isfinite(at(logits, most_likely))) return {};
  if (params.steps) return run_steps(logits, context);
  if (params.is_greedy()) return {{.token = most_likely, .prob = 1.0}};
  if (params.top_k <= 0 || params.top_k >= static_cast<std::int64_t>(logits.size()))
    return filter(softmax(logits, {}, params), params);
  const TopK top_k = select_top_k(logits, params.top_k);
  return filter(softmax(top_k.logits, top_k.tokens, params), params);
}

bool has_allowed_token(const SamplingParams& params,
                       std::span<const TokenId> eos_token_ids,
                       std::int64_t vocab_size) {
  if (params.allowed_token_ids.empty() && params.bad_words.empty() && params.min_tokens == 0)
    return true;  // the common case, without a scan of the vocabulary
  std::vector<float> logits(static_cast<std::size_t>(vocab_size), 0.0F);
  const SamplingContext context = {.params = &params, .eos_token_ids = eos_token_ids};
  mask_disallowed(logits, params);
  mask_bad_words(logits, context);
  mask_early_stop(logits, context);
  return std::ranges::any_of(logits, [](float logit) { return logit != kMasked; });
}

std::optional<TokenId> sample(std::span<float> logits, const SamplingContext& context) {
  return draw(distribution(logits, context), context);
}

bool needs_host(const SamplingParams& params) {
  return params.logprobs || params.steps || (params.typical_p < 1.0 && !params.is_greedy());
}

bool has_penalties(const SamplingParams& params) {
  return params.repetition_penalty != 1.0 || params.presence_penalty != 0.0 ||
         params.frequency_penalty != 0.0;
}

bool depends_on_output(const SamplingParams& params) {
  const bool has_long_word = std::ranges::any_of(
      params.bad_words, [](const std::vector<TokenId>& word) { return word.size() > 1; });
  return has_long_word || params.structured_output || has_penalties(params);
}

void add_device_row(const SamplingContext& context,
                    std::int64_t num_output,
                    ops::BatchSampling& sampling) {
  const SamplingParams& params = *context.params;
  kernels::RowSampling row;
  row.first_edit = static_cast<std::int32_t>(sampling.edits.size());
  LogitEdits edits(params);
  edits.mask_bad_words(context);
  if (num_output < params.min_tokens) edits.mask_early_stop(context);
  edits.add_bias();
  edits.penalize(context);
  edits.append_to(sampling.edits);
  row.num_edits = static_cast<std::int32_t>(sampling.edits.size()) - row.first_edit;
  if (!context.allowed.empty()) {
    row.first_mask = static_cast<std::int32_t>(sampling.masks.size());
    sampling.masks.insert(sampling.masks.end(), context.allowed.begin(), context.allowed.end());
  }
  row.masks_unedited = params.allowed_token_ids.empty() ? 0 : 1;
  if (!params.is_greedy()) {
    constexpr std::int64_t kMaxTopK = std::numeric_limits<std::int32_t>::max();
    row.temperature = static_cast<float>(params.temperature);
    row.top_k = static_cast<std::int32_t>(std::clamp<std::int64_t>(params.top_k, 0, kMaxTopK));
    row.top_p = params.top_p;
    row.min_p = static_cast<float>(params.min_p);
    row.draw = uniform(context.seed, static_cast<std::uint64_t>(num_output));
  }
  sampling.rows.push_back(row);
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
  const auto is_before = [&](TokenId a, TokenId b) {
    const float first = logits[static_cast<std::size_t>(a)];
    const float second = logits[static_cast<std::size_t>(b)];
    return first != second ? first > second : a < b;
  };
  TokenLogprobs out = {.token = token, .logprob = logprob(token)};
  std::vector<TokenId> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  out.rank = 1 + std::ranges::count_if(ids, [&](TokenId id) { return is_before(id, token); });
  const auto end = ids.begin() + std::min(num_top, static_cast<std::int64_t>(ids.size()));
  std::partial_sort(ids.begin(), end, ids.end(), is_before);
  for (auto id = ids.begin(); id != end; ++id)
    out.top.emplace_back(*id, logprob(*id));
  return out;
}

}  // namespace graft::engine
