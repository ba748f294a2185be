#include "graft/engine/scheduler.h"

#include <algorithm>

#include "graft/base/check.h"

namespace graft::engine {
namespace {

// Logits of every position of a prompt are wanted: fewer at a time, for they take memory.
constexpr std::int64_t kMaxLogitRows = 256;

// Samples that will run when the prompt is done, itself included; 1 from then on.
std::int64_t seats_of(const Sequence& sequence) {
  return sequence.params.n;
}

}  // namespace

Scheduler::Scheduler(const EngineConfig& config, BlockManager& blocks)
    : config_(config), blocks_(blocks) {}

void Scheduler::add(Sequence& sequence) {
  sequence.state = SequenceState::Waiting;
  waiting_.insert(&sequence);
}

void Scheduler::add_fork(Sequence& sequence) {
  sequence.state = SequenceState::Running;
  running_.insert(&sequence);
}

void Scheduler::remove(Sequence& sequence) {
  running_.erase(&sequence);
  waiting_.erase(&sequence);
  blocks_.free(sequence.table);
  sequence.state = SequenceState::Finished;
}

Schedule Scheduler::schedule() {
  Step step;
  step.budget = config_.max_num_batched_tokens;
  schedule_running(step, true);
  schedule_running(step, false);
  // From here on nothing is taken back, so what will be written may be shared within this very
  // step: in a pass every layer writes all rows before any is read.
  for (const ScheduledSequence& scheduled : step.schedule.sequences)
    register_blocks(scheduled);
  if (!step.has_preempted) schedule_waiting(step);
  return std::move(step.schedule);
}

void Scheduler::schedule_running(Step& step, bool generating) {
  // A copy: making room takes sequences out of the queue.
  const std::vector<Sequence*> running(running_.begin(), running_.end());
  for (Sequence* sequence : running) {
    if (sequence->state != SequenceState::Running || step.budget == 0) continue;
    if ((sequence->num_pending() == 1) != generating) continue;
    if (!generating) match_prefix(*sequence);
    const std::int64_t num_tokens = chunk_of(*sequence, step.budget);
    if (!make_room(step, *sequence, num_tokens)) continue;
    put(step, *sequence, num_tokens);
    // Prompts are not preempted in the step that computes them: the next one may share.
    if (!generating) register_blocks(step.schedule.sequences.back());
  }
}

void Scheduler::schedule_waiting(Step& step) {
  while (!waiting_.empty() && step.budget > 0) {
    Sequence& sequence = **waiting_.begin();
    if (num_seats() + seats_of(sequence) > config_.max_num_seqs) return;
    if (blocks_.blocks_for(sequence.num_tokens()) > blocks_.num_blocks()) {
      waiting_.erase(&sequence);
      step.schedule.too_long.push_back(&sequence);
      continue;
    }
    match_prefix(sequence);
    const std::int64_t num_more = blocks_.blocks_for(sequence.num_tokens()) -
                                  static_cast<std::int64_t>(sequence.table.blocks.size());
    // All of it must fit now, or it would be thrown out again half-way.
    if (num_more > blocks_.num_free()) {
      blocks_.free(sequence.table);
      sequence.num_computed = 0;
      return;
    }
    if (sequence.num_output() == 0) sequence.num_cached = sequence.num_computed;
    num_queried_tokens_ += sequence.num_tokens();
    num_hit_tokens_ += sequence.num_computed;
    const std::int64_t num_tokens = chunk_of(sequence, step.budget);
    const bool has_room = blocks_.prepare(sequence.table, sequence.num_computed,
                                          sequence.num_computed + num_tokens, step.schedule.copies);
    GRAFT_CHECK(has_room, "no room for an admitted sequence");
    waiting_.erase(&sequence);
    running_.insert(&sequence);
    sequence.state = SequenceState::Running;
    if (!sequence.first_scheduled) sequence.first_scheduled = Clock::now();
    put(step, sequence, num_tokens);
    register_blocks(step.schedule.sequences.back());
  }
}

std::int64_t Scheduler::num_seats() const {
  std::int64_t seats = 0;
  for (const Sequence* sequence : running_)
    seats += seats_of(*sequence);
  return seats;
}

std::int64_t Scheduler::chunk_of(const Sequence& sequence, std::int64_t budget) const {
  std::int64_t most = std::min(budget, config_.chunk_prefill_size);
  if (sequence.params.prompt_logprobs) most = std::min(most, kMaxLogitRows);
  return std::min(sequence.num_pending(), most);
}

// What others have computed since need not be computed again. Only at a block's beginning, and not
// when every position's logits are wanted.
void Scheduler::match_prefix(Sequence& sequence) {
  const bool is_at_block =
      sequence.num_computed ==
      static_cast<std::int64_t>(sequence.table.blocks.size()) * blocks_.block_tokens();
  if (!is_at_block || (sequence.params.prompt_logprobs && sequence.num_output() == 0)) return;
  if (static_cast<std::int64_t>(sequence.table.blocks.size()) != sequence.table.num_known) return;
  const std::int64_t gained = blocks_.match_prefix(sequence.table, sequence.tokens);
  sequence.num_computed += gained;
  if (sequence.state == SequenceState::Running) num_hit_tokens_ += gained;
}

// Preempts until the tokens fit. False when the sequence itself had to go.
bool Scheduler::make_room(Step& step, Sequence& sequence, std::int64_t num_tokens) {
  const std::int64_t end = sequence.num_computed + num_tokens;
  while (!blocks_.prepare(sequence.table, sequence.num_computed, end, step.schedule.copies)) {
    Sequence& victim = **running_.rbegin();
    if (&victim == &sequence && running_.size() == 1) {
      step.schedule.too_long.push_back(&sequence);
      return false;
    }
    preempt(step, victim);
    if (&victim == &sequence) return false;
  }
  return true;
}

void Scheduler::put(Step& step, Sequence& sequence, std::int64_t num_tokens) {
  GRAFT_DCHECK(num_tokens > 0, "nothing to compute");
  step.schedule.sequences.push_back({.sequence = &sequence, .num_tokens = num_tokens});
  step.budget -= num_tokens;
}

void Scheduler::register_blocks(const ScheduledSequence& scheduled) {
  Sequence& sequence = *scheduled.sequence;
  blocks_.register_full(sequence.table, sequence.tokens,
                        sequence.num_computed + scheduled.num_tokens);
}

void Scheduler::preempt(Step& step, Sequence& victim) {
  const auto scheduled =
      std::ranges::find(step.schedule.sequences, &victim, &ScheduledSequence::sequence);
  GRAFT_CHECK(scheduled == step.schedule.sequences.end() || scheduled->num_tokens == 1,
              "preempting a prompt of this step");
  if (scheduled != step.schedule.sequences.end()) {
    step.budget += scheduled->num_tokens;
    step.schedule.sequences.erase(scheduled);
  }
  blocks_.free(victim.table);
  victim.num_computed = 0;
  ++victim.num_preemptions;
  ++num_preemptions_;
  running_.erase(&victim);
  waiting_.insert(&victim);
  victim.state = SequenceState::Waiting;
  step.has_preempted = true;
}

}  // namespace graft::engine
