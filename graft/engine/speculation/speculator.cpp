#include "graft/engine/speculation/speculator.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

#include "graft/engine/speculation/ngram_drafter.h"
#include "graft/engine/speculation/sequence_speculation.h"

namespace graft::engine {
namespace {

// Automatic speculation measures the time of a step with a few guessed tokens, when guesses are
// right often enough, and of a step without any.
constexpr std::int64_t kMeasureSteps = 64;
constexpr std::int64_t kFirstMeasureSteps = 8;  // while the times are unknown
constexpr std::int64_t kMeasuredTokens = 2;
constexpr double kMinExpected = 0.5;
// Sequences whose guesses are rarer do not keep the next step from starting early.
constexpr double kMinCoverage = 0.2;

}  // namespace

Speculator::Speculator(std::int64_t vocab_size)
    : drafter_(std::make_unique<NgramDrafter>(vocab_size)) {}

std::unique_ptr<SequenceSpeculation> Speculator::start(const Speculation& config) {
  if (config.method == Speculation::Method::Off) return nullptr;
  auto speculation = std::make_unique<SequenceSpeculation>();
  speculation->config = config;
  speculation->is_active = !config.is_automatic;
  return speculation;
}

void Speculator::draft(std::span<Draft> drafts, std::int64_t num_sequences) {
  drafter_->draft(drafts);
  for (Draft& draft : drafts) {
    SequenceSpeculation& speculation = *draft.sequence->speculation;
    if (!speculation.config.is_automatic || draft.sequence->num_known_output() == 0) continue;
    compare_guess(*draft.sequence);
    speculation.guess = draft.tokens;
    speculation.guess_begin = draft.sequence->tokens.size();
    draft.tokens.resize(static_cast<std::size_t>(num_to_verify(speculation, draft, num_sequences)));
  }
}

void Speculator::record_step(std::int64_t num_sequences,
                             std::int64_t num_draft_tokens,
                             double seconds) {
  times_.record(num_sequences + num_draft_tokens, seconds);
  num_since_drafts_ = num_draft_tokens > 0 ? 0 : num_since_drafts_ + 1;
  num_since_plain_ = num_draft_tokens > 0 ? num_since_plain_ + 1 : 0;
}

// The tokens that are known since the guess: of a verified one, the first wrong token is the last.
void Speculator::compare_guess(Sequence& sequence) const {
  SequenceSpeculation& speculation = *sequence.speculation;
  if (speculation.guess_begin == 0 || sequence.tokens.size() == speculation.guess_begin) return;
  const auto known = std::span(sequence.tokens).subspan(speculation.guess_begin);
  const std::size_t num_compared = std::min(known.size(), speculation.guess.size());
  std::size_t num_right = 0;
  while (num_right < num_compared && speculation.guess[num_right] == known[num_right])
    ++num_right;
  speculation.acceptance.record(static_cast<std::int64_t>(num_right),
                                static_cast<std::int64_t>(num_compared));
}

std::int64_t Speculator::num_to_verify(SequenceSpeculation& speculation,
                                       const Draft& draft,
                                       std::int64_t num_sequences) const {
  const Acceptance& acceptance = speculation.acceptance;
  const auto num_guessed = static_cast<std::int64_t>(draft.tokens.size());
  const std::optional<std::int64_t> best =
      worthwhile_tokens(acceptance, times_, num_sequences, draft.max_tokens);
  const bool is_promising = acceptance.expected(draft.max_tokens) >= kMinExpected;
  const bool is_measured =
      is_promising && num_since_drafts_ >= (best ? kMeasureSteps : kFirstMeasureSteps);
  speculation.is_active =
      acceptance.coverage() >= kMinCoverage && (best.value_or(0) > 0 || is_measured);
  if (is_measured) return std::min(kMeasuredTokens, num_guessed);
  if (num_since_plain_ >= kMeasureSteps) return 0;
  return std::min(best.value_or(0), num_guessed);
}

void Speculator::record_drafted(Sequence& sequence, std::int64_t num_tokens) {
  sequence.speculation->num_draft_tokens += num_tokens;
  ++stats_.num_drafts;
  stats_.num_draft_tokens += num_tokens;
  auto& by_position = stats_.accepted_by_position;
  by_position.resize(std::max(by_position.size(), static_cast<std::size_t>(num_tokens)));
}

void Speculator::record_accepted(Sequence& sequence, std::int64_t position) {
  ++sequence.speculation->num_accepted_tokens;
  ++stats_.num_accepted_tokens;
  ++stats_.accepted_by_position[static_cast<std::size_t>(position)];
}

}  // namespace graft::engine
