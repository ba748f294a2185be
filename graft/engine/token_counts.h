// How often each token is in the output of a sequence, and which are in its prompt: for penalties.
// Grows with the sequence, so that a step does not read all its tokens again.

#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <unordered_map>

#include "graft/llm.h"

namespace graft::engine {

class TokenCounts {
 public:
  // Counts the tokens that were not counted yet: `tokens` only grows from call to call. Those from
  // `num_prompt` on are output; those from `end` on are of images and not counted.
  void update(std::span<const TokenId> tokens,
              std::int64_t num_prompt,
              TokenId end = std::numeric_limits<TokenId>::max()) {
    for (; num_counted_ < static_cast<std::int64_t>(tokens.size()); ++num_counted_) {
      const TokenId token = tokens[static_cast<std::size_t>(num_counted_)];
      if (token >= end) continue;
      std::int64_t& count = counts_[token];
      if (num_counted_ >= num_prompt) ++count;
    }
  }
  void add(TokenId token, std::int64_t count) { counts_[token] += count; }

  // In the output, by token; 0: only in the prompt.
  const std::unordered_map<TokenId, std::int64_t>& counts() const { return counts_; }
  std::int64_t num_counted() const { return num_counted_; }

 private:
  std::unordered_map<TokenId, std::int64_t> counts_;
  std::int64_t num_counted_ = 0;
};

}  // namespace graft::engine
