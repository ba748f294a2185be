#include "graft/engine/scheduler.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "graft/base/check.h"
#include "graft/engine/tiers/sequence_tiers.h"

namespace graft::engine {
namespace {

// Chunk limit for prompt logprobs, which need vocab_size logits per prompt token.
constexpr std::int64_t kMaxLogitRows = 256;

// Decode steps between two streamed prompt chunks.
constexpr std::int64_t kDecodeSteps = 8;

// Slots of max_num_seqs that a sequence uses: n until its prompt is computed and it forks, then 1.
std::int64_t num_slots(const Sequence& sequence) {
  return sequence.params.n;
}

// Mixed into the salt of the prefix cache: keys of LongRoPE's two sets of factors differ.
constexpr std::uint64_t kLongRopeSalt = 0x9e3779b97f4a7c15;

}  // namespace

Scheduler::Scheduler(const EngineConfig& config,
                     BlockManager& blocks,
                     std::int64_t stream_from,
                     std::int64_t long_rope_from,
                     StateSlots* states)
    : config_(config),
      blocks_(blocks),
      stream_from_(stream_from),
      long_rope_from_(long_rope_from),
      states_(states) {
  if (states == nullptr) return;
  blocks.on_unregister([states](std::uint64_t prefix_id) { states->drop_snapshot(prefix_id); });
}

void Scheduler::add(Sequence& sequence) {
  sequence.state = SequenceState::Waiting;
  waiting_.insert(sequence);
}

void Scheduler::add_fork(Sequence& sequence) {
  sequence.state = SequenceState::Running;
  running_.insert(&sequence);
}

// The logits or hidden states of every position are needed: nothing may come from the prefix cache.
bool Scheduler::needs_every_position(const Sequence& sequence) {
  if (sequence.is_embedding()) return sequence.pooler->needs_every_token();
  return sequence.params.prompt_logprobs && sequence.num_output() == 0;
}

void Scheduler::pause(Sequence& sequence) {
  if (sequence.state == SequenceState::Running) stop_running(sequence);
  waiting_.erase(sequence);
  SequenceTiers::cancel(sequence);
  paused_.insert(&sequence);
}

void Scheduler::resume(Sequence& sequence) {
  if (paused_.erase(&sequence) > 0) waiting_.insert(sequence);
}

void Scheduler::remove(Sequence& sequence) {
  running_.erase(&sequence);
  waiting_.erase(sequence);
  paused_.erase(&sequence);
  free_states(sequence);
  blocks_.free(sequence.table);
  SequenceTiers::cancel(sequence);
  sequence.state = SequenceState::Finished;
}

Schedule Scheduler::schedule() {
  for (Sequence* sequence : running_)
    release_out_of_window(*sequence);
  if (states_ != nullptr) {
    for (Sequence* sequence : running_)
      add_snapshots(*sequence);
  }
  restart_long_sequences();
  make_room();
  const Kind kind = next_kind();
  Schedule scheduled = schedule(kind);
  // Prompts may wait for free blocks.
  if (scheduled.empty() && kind == Kind::Prefill) scheduled = schedule(Kind::Decode);
  // Last, because preemption ends what was scheduled before.
  if (states_ != nullptr) {
    for (ScheduledSequence& one : scheduled.sequences)
      plan_checkpoints(one);
  }
  return scheduled;
}

Scheduler::Kind Scheduler::next_kind() {
  if (stream_from_ == 0) return Kind::Mixed;
  const std::int64_t num_prompt_tokens = num_pending_prefill();
  const std::int64_t num_decode_tokens = num_decoding();
  if (num_prompt_tokens == 0 || num_prompt_tokens + num_decode_tokens < stream_from_)
    return Kind::Mixed;
  if (num_decode_tokens > 0 && num_decode_steps_ < kDecodeSteps) {
    ++num_decode_steps_;
    return Kind::Decode;
  }
  num_decode_steps_ = 0;
  return Kind::Prefill;
}

std::int64_t Scheduler::num_decoding() const {
  return std::ranges::count_if(
      running_, [](const Sequence* sequence) { return work_of(*sequence) == Work::Decode; });
}

std::int64_t Scheduler::num_pending_prefill() const {
  std::int64_t num_tokens = 0;
  for (const Sequence* sequence : running_) {
    if (sequence->num_pending() > 1) num_tokens += sequence->num_pending();
  }
  for (const auto& [client, sequences] : waiting_.by_client()) {
    for (const Sequence* sequence : sequences)
      num_tokens += is_loading(*sequence) ? 0 : sequence->num_pending();
  }
  return num_tokens;
}

ClientSlots Scheduler::slots_by_client() const {
  ClientSlots slots;
  for (const Sequence* sequence : running_)
    slots[sequence->client] += num_slots(*sequence);
  return slots;
}

// Tokens of prompts and embeddings that each client could compute now, up to the budget of a step.
std::map<ClientId, std::int64_t> Scheduler::pending_prompts() const {
  std::map<ClientId, std::int64_t> pending;
  const auto add = [&](const Sequence& sequence) {
    std::int64_t& sum = pending[sequence.client];
    sum = std::min(sum + sequence.num_pending(), config_.max_num_batched_tokens);
    return sum < config_.max_num_batched_tokens;
  };
  for (const Sequence* sequence : running_) {
    if (work_of(*sequence) != Work::Decode) add(*sequence);
  }
  for (const auto& [client, sequences] : waiting_.by_client()) {
    for (const Sequence* sequence : sequences) {
      if (!is_loading(*sequence) && !add(*sequence)) break;
    }
  }
  return pending;
}

bool Scheduler::outgrows_short_rope(const Sequence& sequence) const {
  return long_rope_from_ > 0 && !sequence.uses_long_rope &&
         sequence.num_tokens() > long_rope_from_ && !sequence.is_last_in_flight;
}

// Its keys were rotated with the short factors: they are computed again with the long ones.
void Scheduler::use_long_rope(Sequence& sequence) {
  free_states(sequence);
  blocks_.free(sequence.table);
  SequenceTiers::cancel(sequence);
  sequence.num_computed = 0;
  sequence.uses_long_rope = true;
  sequence.table = salted_table(sequence.table.root_id ^ kLongRopeSalt);
}

void Scheduler::restart_long_sequences() {
  if (long_rope_from_ == 0) return;
  const std::vector<Sequence*> running(running_.begin(), running_.end());
  for (Sequence* sequence : running) {
    if (!outgrows_short_rope(*sequence)) continue;
    stop_running(*sequence);
    use_long_rope(*sequence);
    waiting_.insert(*sequence);
  }
}

// Before anything is scheduled, so that no block of this step is shared with a preempted sequence.
void Scheduler::make_room() {
  const ClientSlots slots = slots_by_client();
  waiting_.keep_only(slots);
  const bool is_alone =
      waiting_.by_client().empty() ||
      (waiting_.by_client().size() == 1 && slots.size() <= 1 &&
       (slots.empty() || slots.begin()->first == waiting_.by_client().begin()->first));
  if (is_alone) return;
  const auto any = [this](const Sequence& one) { return !is_loading(one); };
  for (;;) {
    const Sequence* wanted = waiting_.next(slots_by_client(), any);
    if (wanted == nullptr || !preempt_for(*wanted)) return;
  }
}

// Preempts a sequence of the client with the most slots, when `wanted` has no slot and its client
// would not get more than its share. False: nothing was preempted.
bool Scheduler::preempt_for(const Sequence& wanted) {
  if (num_used_slots() + num_slots(wanted) <= config_.max_num_seqs) return false;
  ClientSlots slots = slots_by_client();
  for (const auto& [client, sequences] : waiting_.by_client())
    slots.try_emplace(client, 0);
  const auto num_clients = static_cast<std::int64_t>(slots.size());
  const std::int64_t share = std::max<std::int64_t>(1, config_.max_num_seqs / num_clients);
  if (slots[wanted.client] + num_slots(wanted) > share) return false;
  const auto largest = std::ranges::max_element(
      slots, [](const auto& a, const auto& b) { return a.second < b.second; });
  if (largest->second <= share) return false;
  const auto victim = std::find_if(running_.rbegin(), running_.rend(), [&](const Sequence* one) {
    return one->client == largest->first;
  });
  Sequence& preempted = **victim;
  ++num_preemptions_;
  stop_running(preempted);
  waiting_.insert(preempted);
  return true;
}

Schedule Scheduler::schedule(Kind kind) {
  Step step;
  step.budget = config_.max_num_batched_tokens;
  step.slots = slots_by_client();
  if (kind != Kind::Prefill) schedule_running(step, Work::Decode);
  if (kind == Kind::Decode) return finish_schedule(step);
  step.prompt_tokens = fair_shares(pending_prompts(), step.budget);
  schedule_running(step, Work::Prompt);
  // Nothing is preempted from here on, so blocks written in this step can be shared within it: each
  // layer writes all keys and values of the batch before it reads any.
  for (const ScheduledSequence& scheduled : step.schedule.sequences)
    register_blocks(scheduled);
  if (!step.has_preempted) schedule_waiting(step, /*is_embedding=*/false);
  // Running embeddings may preempt, but only embeddings that come later: they have the lowest rank.
  schedule_running(step, Work::Embedding);
  if (!step.has_preempted) schedule_waiting(step, /*is_embedding=*/true);
  return finish_schedule(step);
}

Schedule Scheduler::finish_schedule(Step& step) {
  step.schedule.budget = step.budget;
  return std::move(step.schedule);
}

Scheduler::Work Scheduler::work_of(const Sequence& sequence) {
  if (sequence.is_embedding()) return Work::Embedding;
  return sequence.num_pending() == 1 ? Work::Decode : Work::Prompt;
}

void Scheduler::schedule_running(Step& step, Work work) {
  // A copy, because preemption removes sequences from the queue.
  const std::vector<Sequence*> running(running_.begin(), running_.end());
  for (Sequence* sequence : running) {
    if (sequence->state != SequenceState::Running || step.budget == 0) continue;
    if (work_of(*sequence) != work || sequence->is_last_in_flight) continue;
    if (work != Work::Decode) {
      if (!sequence->tier.blocks.empty() && !fill_from_tiers(step, *sequence)) continue;
      match_prefix(*sequence);
      copy_matched(step, *sequence);
    }
    const std::int64_t num_tokens = chunk_size(step, *sequence);
    if (num_tokens == 0) continue;
    if (!allocate_blocks(step, *sequence, num_tokens)) continue;
    push(step, *sequence, num_tokens);
    // A scheduled prompt chunk is not preempted in this step, so the next prompt may share it.
    if (work != Work::Decode) register_blocks(step.schedule.sequences.back());
  }
}

void Scheduler::schedule_waiting(Step& step, bool is_embedding) {
  const auto is_allowed = [&](const Sequence& one) {
    return one.is_embedding() == is_embedding && step.prompt_tokens[one.client] > 0 &&
           !one.is_last_in_flight && !is_loading(one);
  };
  while (step.budget > 0) {
    Sequence* const next = waiting_.next(step.slots, is_allowed);
    if (next == nullptr) return;
    Sequence& sequence = *next;
    if (num_used_slots() + num_slots(sequence) > config_.max_num_seqs) return;
    if (!can_hold(sequence.num_tokens())) {
      waiting_.erase(sequence);
      step.schedule.too_long.push_back(&sequence);
      continue;
    }
    if (outgrows_short_rope(sequence)) use_long_rope(sequence);
    if (still_lacks_blocks(sequence)) return;
    const std::int64_t num_free = blocks_.num_free();
    match_prefix(sequence);
    release_out_of_window(sequence);  // also of a restored sequence
    if (!find_in_tiers(sequence)) {
      release_match(sequence);
      continue;
    }
    limit_found(sequence);
    // The whole sequence must fit, or a later chunk would preempt it.
    sequence.num_free_needed = num_missing_blocks(sequence) + num_free - blocks_.num_free();
    sequence.num_spared = blocks_.num_spared();
    if (sequence.num_free_needed > num_free) {
      release_match(sequence);
      return;
    }
    start_running(step, sequence);
    if (!fill_from_tiers(step, sequence)) continue;
    const std::int64_t num_tokens = chunk_size(step, sequence);
    prepare(step, sequence, num_tokens);
    push(step, sequence, num_tokens);
    register_blocks(step.schedule.sequences.back());
  }
}

void Scheduler::start_running(Step& step, Sequence& sequence) {
  const std::int64_t num_hit = sequence.num_computed + num_tier_tokens(sequence);
  if (sequence.num_output() == 0) sequence.num_cached = num_hit;
  num_queried_tokens_ += sequence.num_tokens();
  num_hit_tokens_ += num_hit;
  prepare(step, sequence, num_tier_tokens(sequence));
  waiting_.erase(sequence);
  start_states(step, sequence);
  running_.insert(&sequence);
  step.slots[sequence.client] += num_slots(sequence);
  sequence.state = SequenceState::Running;
  if (!sequence.first_scheduled) sequence.first_scheduled = Clock::now();
}

// Allocates blocks for tokens of a sequence that was found to fit.
void Scheduler::prepare(Step& step, Sequence& sequence, std::int64_t num_tokens) {
  const bool has_room = blocks_.prepare(sequence.table, sequence.num_computed,
                                        sequence.num_computed + num_tokens, step.schedule.copies);
  GRAFT_CHECK(has_room, "too few free blocks for a scheduled sequence");
}

// Without looking up its prefix, which takes long, in every step. With tiers it is looked up:
// blocks on disk are read while the sequence waits, and those that the prefix cache loses are found
// again.
bool Scheduler::still_lacks_blocks(const Sequence& sequence) const {
  if (tiers_ != nullptr) return false;
  const std::int64_t num_spared = blocks_.num_spared() - sequence.num_spared;
  return sequence.table.blocks.empty() &&
         sequence.num_free_needed - num_spared > blocks_.num_free();
}

// The sequence keeps waiting.
void Scheduler::release_match(Sequence& sequence) {
  free_states(sequence);
  blocks_.free(sequence.table);
  sequence.num_computed = 0;
}

std::int64_t Scheduler::num_used_slots() const {
  std::int64_t count = 0;
  for (const Sequence* sequence : running_)
    count += num_slots(*sequence);
  return count;
}

std::int64_t Scheduler::chunk_size(const Step& step, const Sequence& sequence) const {
  std::int64_t max_tokens = std::min(step.budget, config_.chunk_prefill_size);
  const auto share = step.prompt_tokens.find(sequence.client);
  if (share != step.prompt_tokens.end()) max_tokens = std::min(max_tokens, share->second);
  if (sequence.params.prompt_logprobs) max_tokens = std::min(max_tokens, kMaxLogitRows);
  if (window_ > 0) max_tokens = std::min(max_tokens, max_chunk_);
  return std::min(sequence.num_pending(), max_tokens);
}

// Repeated for running prompts: other sequences may have computed the next blocks since. Possible
// only at a block boundary.
void Scheduler::match_prefix(Sequence& sequence) {
  const bool is_at_block =
      sequence.num_computed ==
      static_cast<std::int64_t>(sequence.table.blocks.size()) * blocks_.block_tokens();
  if (!is_at_block || needs_every_position(sequence)) return;
  if (static_cast<std::int64_t>(sequence.table.blocks.size()) != sequence.table.num_registered)
    return;
  std::int64_t gained = 0;
  if (states_ == nullptr) {
    gained = blocks_.match_prefix(sequence.table, sequence.tokens);
  } else {
    const StateMatch match =
        blocks_.match_prefix(sequence.table, sequence.tokens,
                             [this](std::uint64_t id) { return states_->has_snapshot(id); });
    gained = match.num_tokens;
    sequence.num_known = match.num_known;
    if (gained > 0) sequence.matched_slot = states_->use_snapshot(sequence.table.prefix_id);
  }
  sequence.num_computed += gained;
  if (sequence.state == SequenceState::Running) num_hit_tokens_ += gained;
}

// Preempts until the blocks can be allocated. False when the sequence itself was preempted, or when
// it runs alone and exceeds the whole cache.
bool Scheduler::allocate_blocks(Step& step, Sequence& sequence, std::int64_t num_tokens) {
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

void Scheduler::push(Step& step, Sequence& sequence, std::int64_t num_tokens) {
  GRAFT_DCHECK(num_tokens > 0, "nothing to compute");
  step.schedule.sequences.push_back({.sequence = &sequence, .num_tokens = num_tokens});
  step.budget -= num_tokens;
  waiting_.serve(sequence.client, num_tokens);
  const auto share = step.prompt_tokens.find(sequence.client);
  if (share != step.prompt_tokens.end()) share->second -= num_tokens;
}

void Scheduler::register_blocks(const ScheduledSequence& scheduled) {
  Sequence& sequence = *scheduled.sequence;
  // The block of a token in flight is registered in a later step.
  const auto num_known = static_cast<std::int64_t>(sequence.tokens.size());
  blocks_.register_full(sequence.table, sequence.tokens,
                        std::min(sequence.num_computed + scheduled.num_tokens, num_known));
}

void Scheduler::preempt(Step& step, Sequence& victim) {
  const auto scheduled =
      std::ranges::find(step.schedule.sequences, &victim, &ScheduledSequence::sequence);
  GRAFT_CHECK(scheduled == step.schedule.sequences.end() || scheduled->num_tokens == 1,
              "preempting a prompt chunk scheduled in this step");
  if (scheduled != step.schedule.sequences.end()) {
    step.budget += scheduled->num_tokens;
    step.schedule.sequences.erase(scheduled);
  }
  ++num_preemptions_;
  stop_running(victim);
  waiting_.insert(victim);
  step.has_preempted = true;
}

void Scheduler::stop_running(Sequence& sequence) {
  free_states(sequence);
  blocks_.free(sequence.table);
  SequenceTiers::cancel(sequence);
  sequence.num_computed = 0;
  if (sequence.is_embedding()) sequence.pooler->clear();
  running_.erase(&sequence);
  sequence.state = SequenceState::Waiting;
}

}  // namespace graft::engine
