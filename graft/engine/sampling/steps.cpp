#include "graft/engine/sampling/steps.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "graft/engine/sampling_params.h"

namespace graft::engine {
namespace {

struct Candidate {
  TokenId token = 0;
  double logit = 0;
  double prob = 0;  // as of normalize()
};

bool is_before(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.token < b.token;
}

bool is_one_of(TokenId token, std::span<const TokenId> tokens) {
  return std::ranges::find(tokens, token) != tokens.end();
}

// The tokens that are left, the most likely first.
class Steps {
 public:
  Steps(std::span<const float> logits, const SamplingContext& context)
      : params_(*context.params), context_(context), logits_(logits) {
    for (std::size_t i = 0; i < logits.size(); ++i) {
      if (std::isfinite(logits[i]))
        left_.push_back({.token = static_cast<TokenId>(i), .logit = logits[i]});
    }
    // A first top_k needs no order of the others.
    if (!params_.steps->empty() && params_.steps->front() == SamplingStep::TopK &&
        params_.top_k > 0 && static_cast<std::size_t>(params_.top_k) < left_.size()) {
      const auto end = left_.begin() + params_.top_k;
      std::ranges::nth_element(left_, end, is_before);
      left_.erase(end, left_.end());
    }
    std::ranges::sort(left_, is_before);
  }

  void run(SamplingStep step) {
    switch (step) {
      case SamplingStep::TopK:
        return keep(params_.top_k > 0 ? static_cast<std::size_t>(params_.top_k) : left_.size());
      case SamplingStep::TopP:
        return keep_mass(params_.top_p);
      case SamplingStep::MinP:
        return keep_min_p();
      case SamplingStep::TypicalP:
        return keep_typical();
      case SamplingStep::Temperature:
        return apply_temperature();
      case SamplingStep::Infill:
        return infill();
    }
  }

  std::vector<TokenProb> take() {
    normalize();
    std::vector<TokenProb> probs;
    for (const Candidate& each : left_)
      probs.push_back({.token = each.token, .prob = each.prob});
    std::ranges::sort(probs, {}, &TokenProb::token);
    return probs;
  }

 private:
  void keep(std::size_t count) { left_.resize(std::min(count, left_.size())); }

  void normalize() {
    double sum = 0;
    for (Candidate& each : left_) {
      each.prob = std::exp(each.logit - left_.front().logit);
      sum += each.prob;
    }
    for (Candidate& each : left_)
      each.prob /= sum;
  }

  void keep_mass(double mass) {
    if (mass >= 1.0) return;
    normalize();
    keep_first(mass);
  }

  // In the order in which they are.
  void keep_first(double mass) {
    double sum = 0;
    std::size_t count = 0;
    while (count < left_.size() && sum < mass)
      sum += left_[count++].prob;
    keep(count);
  }

  void keep_min_p() {
    if (params_.min_p <= 0) return;
    const double least = left_.front().logit + std::log(params_.min_p);
    std::erase_if(left_, [&](const Candidate& each) { return each.logit < least; });
  }

  // The tokens whose surprise is nearest to the entropy.
  void keep_typical() {
    if (params_.typical_p >= 1.0) return;
    normalize();
    double entropy = 0;
    for (const Candidate& each : left_)
      if (each.prob > 0) entropy -= each.prob * std::log(each.prob);
    const auto distance = [&](const Candidate& each) {
      return std::abs(-std::log(each.prob) - entropy);
    };
    std::ranges::stable_sort(left_, {}, distance);
    keep_first(params_.typical_p);
    std::ranges::sort(left_, is_before);
  }

  void apply_temperature() {
    if (params_.is_greedy()) return keep(1);
    for (Candidate& each : left_)
      each.logit /= params_.temperature;
  }

  bool is_end(TokenId token) const {
    return is_one_of(token, context_.eos_token_ids) || is_one_of(token, params_.stop_token_ids);
  }

  // For fill-in-the-middle, after top_k and top_p: ends where the end is likely beside many texts,
  // joins texts that begin alike, and leaves out unlikely ones, rather ending than guessing.
  void infill() {
    constexpr double kEndFactor = 3;
    constexpr double kMinProb = 0.2;
    normalize();
    double end_prob = 0;
    for (const Candidate& each : left_)
      if (is_end(each.token)) end_prob += each.prob;
    if (kEndFactor * end_prob * static_cast<double>(left_.size()) > 1 - end_prob)
      return erase_texts(2);
    join_prefixes();
    const Candidate best = left_.front();
    erase_texts(kMinProb);
    const auto num_texts =
        std::ranges::count_if(left_, [&](const Candidate& each) { return !is_end(each.token); });
    if (num_texts == 0) return end_or(best);
    erase_texts(1 / static_cast<double>(num_texts + 1));
  }

  // Those that are less likely; the probabilities of the rest are of the rest again.
  void erase_texts(double min_prob) {
    std::erase_if(
        left_, [&](const Candidate& each) { return each.prob < min_prob && !is_end(each.token); });
    if (!left_.empty()) normalize();
  }

  // A text that begins another takes part in one with it: the more likely has both probabilities.
  void join_prefixes() {
    std::vector<std::string> texts;
    for (const Candidate& each : left_)
      texts.emplace_back(is_end(each.token) ? "" : context_.tokenizer->bytes(each.token));
    for (std::size_t a = 0; a < left_.size(); ++a) {
      for (std::size_t b = 0; b < left_.size(); ++b) {
        if (a == b || left_[a].prob == 0 || left_[b].prob == 0 || texts[a].empty()) continue;
        if (!texts[b].starts_with(texts[a])) continue;
        const std::size_t kept = left_[b].prob > left_[a].prob ? b : a;
        const std::size_t joined = kept == a ? b : a;
        left_[kept].prob += std::exchange(left_[joined].prob, 0);
      }
    }
    std::erase_if(left_, [](const Candidate& each) { return each.prob == 0; });
    for (Candidate& each : left_)
      each.logit = std::log(each.prob);
    std::ranges::sort(left_, is_before);
  }

  // No text is likely: the end, unless it may not be sampled.
  void end_or(const Candidate& best) {
    if (!left_.empty()) return;
    left_.push_back(best);
    if (params_.ignore_eos || context_.eos_token_ids.empty()) return;
    const TokenId end = context_.eos_token_ids.front();
    if (std::isfinite(logits_[static_cast<std::size_t>(end)])) left_.front().token = end;
  }

  const SamplingParams& params_;
  const SamplingContext& context_;
  std::span<const float> logits_;
  std::vector<Candidate> left_;
};

}  // namespace

std::vector<TokenProb> run_steps(std::span<const float> logits, const SamplingContext& context) {
  Steps steps(logits, context);
  for (const SamplingStep step : *context.params->steps)
    steps.run(step);
  return steps.take();
}

}  // namespace graft::engine
