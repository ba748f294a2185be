// Automatic speculation against a text that is known: what it verifies and what that costs.

#include "graft/engine/speculation/speculator.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "graft/engine/speculation/sequence_speculation.h"
#include "graft/engine/speculation/speculation.h"

namespace graft::engine {
namespace {

constexpr std::size_t kTextTokens = 3000;

// Random tokens of num_kinds kinds; after `period` tokens they repeat.
std::vector<TokenId> text_of(unsigned num_kinds, std::size_t period = kTextTokens) {
  std::mt19937 random(3);
  std::vector<TokenId> text;
  for (std::size_t i = 0; i < kTextTokens; ++i)
    text.push_back(i < period ? static_cast<TokenId>(random() % num_kinds) : text[i - period]);
  return text;
}

// The time that the text takes, relative to steps of one token. A step takes 1, and `per_row` for
// each guessed token; the times vary by `noise`.
double relative_time(const std::vector<TokenId>& text, double per_row, double noise = 0.1) {
  Speculator speculator(1 << 20);
  Sequence sequence = {};
  sequence.num_prompt = 1;
  sequence.tokens = {text[0]};
  sequence.speculation = Speculator::start(parse_speculation("auto"));
  std::mt19937 random(1);
  double total = 0;
  while (sequence.tokens.size() < text.size()) {
    Draft draft = {.sequence = &sequence, .max_tokens = 5};
    speculator.draft({&draft, 1}, 1);
    std::size_t at = sequence.tokens.size();
    for (const TokenId token : draft.tokens) {
      if (at + 1 == text.size() || text[at] != token) break;
      sequence.tokens.push_back(text[at++]);
    }
    sequence.tokens.push_back(text[at]);
    const auto num_drafts = static_cast<double>(draft.tokens.size());
    const double seconds = 1 + per_row * num_drafts;
    total += seconds;
    const double factor = 1 + noise * (static_cast<double>(random() % 100) / 50 - 1);
    speculator.record_step(1, static_cast<std::int64_t>(draft.tokens.size()), seconds * factor);
  }
  return total / static_cast<double>(text.size() - 1);
}

TEST(AutomaticSpeculation, NeverCostsMoreThanThreePercent) {
  for (const double per_row : {0.0, 0.05, 0.2, 0.5, 1.0}) {
    for (const unsigned num_kinds : {2U, 3U, 6U, 20U, 1000U}) {
      EXPECT_LE(relative_time(text_of(num_kinds), per_row), 1.03)
          << per_row << ", " << num_kinds << " kinds of tokens";
    }
    EXPECT_LE(relative_time(text_of(1000, 50), per_row), 1.03) << per_row << ", repeated";
  }
}

TEST(AutomaticSpeculation, IsFasterWhereTextRepeatsAndRowsAreCheap) {
  EXPECT_LT(relative_time(text_of(1000, 50), 0.02), 0.25);
  EXPECT_LT(relative_time(text_of(1000, 50), 0.2), 0.45);
  EXPECT_LT(relative_time(text_of(1000, 50), 0.5), 0.75);
}

}  // namespace
}  // namespace graft::engine
