// What the device of a step samples by: with the pass, or later.

#include <algorithm>
#include <cstdint>

#include "graft/engine/engine.h"
#include "graft/engine/sampler.h"

namespace graft::engine {

// False when one sequence needs its logits on the host.
bool Engine::can_sample_on_device(const Schedule& schedule) {
  if (!runner_.can_sample(schedule)) return false;
  return std::ranges::none_of(schedule.sequences, [](const ScheduledSequence& scheduled) {
    const Sequence& sequence = *scheduled.sequence;
    if (sequence.is_embedding() || sequence.params.prompt_logprobs) return true;
    if (!scheduled.is_complete()) return false;
    // The parameters of the row after a guess depend on whether it is right.
    const bool guesses = !scheduled.drafts.empty() && depends_on_output(sequence.params);
    return guesses || sequence.params.n > 1 || needs_host(sequence.params);
  });
}

// Whether the parameters depend on tokens that the device may not have sampled yet. The pass does
// not wait for them: masks of structured output are found while it runs.
bool Engine::samples_later(const Schedule& schedule) {
  if (!open_.model().can_run_ahead()) return false;
  return std::ranges::any_of(schedule.sequences, [](const ScheduledSequence& scheduled) {
    return scheduled.is_complete() && depends_on_output(scheduled.sequence->params);
  });
}

ops::BatchSampling Engine::device_sampling(const Schedule& schedule) {
  ops::BatchSampling sampling;
  for (const ScheduledSequence& scheduled : schedule.sequences) {
    Sequence& sequence = *scheduled.sequence;
    if (scheduled.is_complete())
      add_device_rows(sequence, sequence.num_output(), scheduled.drafts.size(), sampling);
  }
  return sampling;
}

// The row of the next token, and one after each guessed token.
void Engine::add_device_rows(Sequence& sequence,
                             std::int64_t num_output,
                             std::size_t num_drafts,
                             ops::BatchSampling& sampling) const {
  const grammar::TokenBits allowed = allowed_tokens(sequence);
  SamplingContext context = context_of(sequence);
  context.allowed = allowed;
  for (std::size_t i = 0; i <= num_drafts; ++i)
    add_device_row(context, num_output + static_cast<std::int64_t>(i), sampling);
}

// The tokens of the step before are known. Sequences that ended with them have a row in this step,
// whose token is dropped.
void Engine::sample_step(Step& step) {
  ops::BatchSampling sampling;
  for (const Step::Row& row : step.rows) {
    if (!row.is_complete) continue;
    Sequence& sequence = *row.sequence;
    if (sequence.state == SequenceState::Finished) {
      sampling.rows.resize(sampling.rows.size() + 1 + row.drafts.size());
    } else {
      add_device_rows(sequence, sequence.num_known_output(), row.drafts.size(), sampling);
    }
  }
  open_.model().sample(sampling);
  step.is_unsampled = false;
}

}  // namespace graft::engine
