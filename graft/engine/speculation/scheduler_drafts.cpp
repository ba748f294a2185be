// Guessed tokens in the scheduler: they take what is left of a step.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "graft/engine/scheduler.h"

namespace graft::engine {
namespace {

// Guessed tokens of a step: each needs vocab_size logits.
constexpr std::int64_t kMaxDraftTokens = 256;

std::int64_t num_draft_tokens(const Schedule& schedule) {
  std::int64_t count = 0;
  for (const ScheduledSequence& scheduled : schedule.sequences)
    count += static_cast<std::int64_t>(scheduled.drafts.size());
  return count;
}

}  // namespace

void Scheduler::add_drafts(Schedule& schedule,
                           ScheduledSequence& scheduled,
                           std::span<const TokenId> tokens) {
  Sequence& sequence = *scheduled.sequence;
  // They could make a step with prompts stream experts.
  const bool has_prompt = std::ranges::any_of(
      schedule.sequences, [](const ScheduledSequence& one) { return one.num_tokens > 1; });
  if (stream_from_ > 0 && has_prompt) return;
  const std::int64_t left = std::min(schedule.budget, kMaxDraftTokens - num_draft_tokens(schedule));
  std::int64_t count = std::min(static_cast<std::int64_t>(tokens.size()), left);
  const std::int64_t begin = sequence.num_computed + scheduled.num_tokens;
  // From the guessed tokens on: a prompt of this step may share the block of the known one, which
  // is registered, and the step must write that very block.
  const auto has_room = [&] {
    return blocks_.prepare(sequence.table, begin, begin + count, schedule.copies);
  };
  // Without a free block, those that fit into the last one.
  if (count > 0 && !has_room()) {
    const auto num_blocks = static_cast<std::int64_t>(sequence.table.blocks.size());
    count = std::min(count, num_blocks * blocks_.block_tokens() - begin);
  }
  if (count <= 0) return;
  scheduled.drafts.assign(tokens.begin(), tokens.begin() + count);
  schedule.budget -= count;
}

}  // namespace graft::engine
