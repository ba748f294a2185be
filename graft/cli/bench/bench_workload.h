// Benchmark workloads: prompts of random tokens, outputs of a given length.

#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "graft/api/llm.h"

namespace graft::cli {

using Tokens = std::vector<api::TokenId>;

// The seed is fixed, so that every run uses the same tokens.
class Workload {
 public:
  explicit Workload(const api::LLM& llm)
      : last_token_(static_cast<api::TokenId>(
            std::min<std::int64_t>(llm.source().config().vocab_size - 1, 10000))) {}

  std::int64_t length(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random_);
  }
  Tokens tokens(std::int64_t count) {
    std::uniform_int_distribution<api::TokenId> token(0, last_token_);
    Tokens out(static_cast<std::size_t>(count));
    std::ranges::generate(out, [&] { return token(random_); });
    return out;
  }

 private:
  std::mt19937_64 random_{0};
  api::TokenId last_token_;
};

inline api::SamplingParams generate_exactly(std::int64_t num_tokens, double temperature = 0) {
  api::SamplingParams params;
  params.temperature = temperature;
  params.ignore_eos = true;
  params.max_tokens = num_tokens;
  params.seed = 0;
  return params;
}

}  // namespace graft::cli
