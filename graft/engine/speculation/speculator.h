// Guesses the tokens that a step verifies, and chooses how many of them: all, or with automatic
// speculation as many as raise the tokens per second.

#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "graft/engine/sequence.h"
#include "graft/engine/speculation/acceptance.h"
#include "graft/engine/speculation/drafter.h"
#include "graft/llm.h"

namespace graft::engine {

class Speculator {
 public:
  explicit Speculator(std::int64_t vocab_size);

  // Sequence::speculation of a new sequence; null: it does not speculate.
  static std::unique_ptr<SequenceSpeculation> start(const Speculation& config);

  // Fills in the tokens to verify for each draft, whose max_tokens are of the sequences'
  // configurations. num_sequences: that the step decodes.
  void draft(std::span<Draft> drafts, std::int64_t num_sequences);

  // A step that only decodes took this long. num_draft_tokens: verified in it.
  void record_step(std::int64_t num_sequences, std::int64_t num_draft_tokens, double seconds);
  // Tokens that a step has verified, and one that was right after `position` right ones.
  void record_drafted(Sequence& sequence, std::int64_t num_tokens);
  void record_accepted(Sequence& sequence, std::int64_t position);
  const SpeculationStats& stats() const { return stats_; }

 private:
  void compare_guess(Sequence& sequence) const;
  std::int64_t num_to_verify(SequenceSpeculation& speculation,
                             const Draft& draft,
                             std::int64_t num_sequences) const;

  std::unique_ptr<Drafter> drafter_;
  StepTimes times_;
  // Decode steps since the last one that verified tokens, and since the last one that did not.
  std::int64_t num_since_drafts_ = 0;
  std::int64_t num_since_plain_ = 0;
  SpeculationStats stats_;
};

}  // namespace graft::engine
