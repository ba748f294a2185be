#include "graft/engine/speculation/ngram_drafter.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "graft/engine/sequence.h"
#include "graft/engine/speculation/ngram_index.h"
#include "graft/engine/speculation/sequence_speculation.h"

namespace graft::engine {
namespace {

// Tokens of a sequence that are indexed in a step, about a millisecond.
constexpr std::size_t kMaxIndexed = 4096;

}  // namespace

void NgramDrafter::draft(std::span<Draft> drafts) {
  for (Draft& each : drafts)
    draft(each);
}

void NgramDrafter::draft(Draft& draft) const {
  const std::vector<TokenId>& tokens = draft.sequence->tokens;
  NgramIndex& index = draft.sequence->speculation->ngrams;
  const auto unseen = std::span(tokens).subspan(static_cast<std::size_t>(index.size()));
  index.extend(unseen.first(std::min(unseen.size(), kMaxIndexed)));
  const NgramIndex::Match& match = index.match();
  if (unseen.size() > kMaxIndexed || match.length < draft.sequence->speculation->config.min_match)
    return;
  const auto period = tokens.size() - static_cast<std::size_t>(match.end);
  while (static_cast<std::int64_t>(draft.tokens.size()) < draft.max_tokens) {
    // Text that repeats at once goes on repeating.
    const std::size_t num_guessed = draft.tokens.size();
    const TokenId next = num_guessed < period
                             ? tokens[static_cast<std::size_t>(match.end) + num_guessed]
                             : draft.tokens[num_guessed - period];
    if (next >= vocab_size_) return;
    draft.tokens.push_back(next);
  }
}

}  // namespace graft::engine
