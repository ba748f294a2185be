// Selects the sequences and tokens of the next step. One token budget is spent in this order: one
// token for every decoding sequence, chunked prefill of running prompts, waiting sequences by rank,
// then embeddings, running ones first: a long list of texts delays no first token. When the KV
// cache is full, the running sequence of lowest rank is preempted: its blocks are freed and it is
// recomputed later.
//
// Clients share the slots and the prompt tokens of a step equally (fair_queue.h). A client that has
// less than its share of slots preempts sequences of one that has more.
//
// Decode never waits for prefill (it is scheduled first), and prefill never starves: resolve()
// guarantees a budget of at least one token per slot.

#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "graft/engine/block_manager.h"
#include "graft/engine/config.h"
#include "graft/engine/fair_queue.h"
#include "graft/engine/sequence.h"
#include "graft/engine/states/state_slots.h"
#include "graft/engine/tiers/tier_entry.h"
#include "graft/ops/pass.h"

namespace graft::engine {

struct ScheduledSequence {
  Sequence* sequence = nullptr;
  std::int64_t num_tokens = 0;  // starting at sequence->num_computed
  std::vector<ops::StateCheckpoint> checkpoints = {};
  std::vector<TokenId> drafts = {};  // guessed tokens to verify, after those of the sequence

  std::int64_t num_rows() const { return num_tokens + static_cast<std::int64_t>(drafts.size()); }
  // Whether the next token can be sampled after this step.
  bool is_complete() const { return sequence->num_pending() == num_tokens; }
};

class SequenceTiers;

// Before the step, the bytes of the entry must be loaded into block or slot `to`.
struct TierFill {
  std::int32_t to = 0;
  TierEntryPtr entry;
};

struct Schedule {
  std::vector<ScheduledSequence> sequences;
  std::vector<BlockCopy> copies;        // before the forward pass
  std::vector<StateCopy> state_copies;  // before the forward pass, in order
  std::vector<TierFill> loads;          // before the copies, also when no sequence is scheduled
  std::vector<TierFill> state_loads;    // after the copies
  std::vector<Sequence*> too_long;      // need more blocks than the cache has; the caller ends them
  std::int64_t budget = 0;              // tokens left

  bool empty() const { return sequences.empty(); }
};

class Scheduler {
 public:
  // Both must outlive the scheduler. `config` is the result of resolve(). stream_from: the tokens
  // of a step with prompts from which on it streams experts (ops::min_streamed_rows()); 0: none.
  // long_rope_from: Blueprint::long_rope_from. states: null for models without recurrent states.
  Scheduler(const EngineConfig& config,
            BlockManager& blocks,
            std::int64_t stream_from = 0,
            std::int64_t long_rope_from = 0,
            StateSlots* states = nullptr);
  // Of the KV cache; must outlive the scheduler.
  void use_tiers(SequenceTiers* tiers) { tiers_ = tiers; }

  // Every layer of the model reads this many last positions at most
  // (Blueprint::attention_window()); blocks before them are freed. 0: all.
  void use_window(std::int64_t num_tokens);

  // Whether a sequence of this many tokens can run alone.
  bool can_hold(std::int64_t num_tokens) const {
    return max_blocks(num_tokens) <= blocks_.num_blocks();
  }
  // Tokens that attention no longer reads once `num_computed` tokens are computed.
  std::int64_t num_out_of_window(std::int64_t num_computed) const;

  // The caller owns the sequence and must not move it until it is removed.
  void add(Sequence& sequence);
  // Adds a fork of a running sequence whose prompt is computed; the fork is running at once.
  void add_fork(Sequence& sequence);
  // Stops scheduling a sequence until resume(). It frees its slot and its blocks and is recomputed
  // later, as after a preemption.
  void pause(Sequence& sequence);
  void resume(Sequence& sequence);
  // Removes a sequence and frees its blocks.
  void remove(Sequence& sequence);

  Schedule schedule();
  // Adds guessed tokens to verify to a scheduled sequence that decodes, as many as budget, rows and
  // free blocks allow: nothing else waits or is preempted for them. Their blocks are freed by
  // BlockManager::trim() when they are rejected.
  void add_drafts(Schedule& schedule,
                  ScheduledSequence& scheduled,
                  std::span<const TokenId> tokens);
  // After a failed step: the snapshots that it should have written do not exist.
  void discard_pending_snapshots();

  // Nothing to schedule; sequences may be paused.
  bool is_idle() const { return running_.empty() && waiting_.empty(); }
  std::int64_t num_running() const { return static_cast<std::int64_t>(running_.size()); }
  std::int64_t num_waiting() const {  // including paused ones
    return static_cast<std::int64_t>(waiting_.size() + paused_.size());
  }
  std::int64_t num_loading() const;  // waiting sequences whose blocks are read from disk
  std::int64_t num_preemptions() const { return num_preemptions_; }
  // Tokens looked up in the prefix cache when sequences start running, and the hits among them.
  std::int64_t num_queried_tokens() const { return num_queried_tokens_; }
  std::int64_t num_hit_tokens() const { return num_hit_tokens_; }

 private:
  // The schedule under construction.
  struct Step {
    Schedule schedule;
    std::int64_t budget = 0;                              // tokens left
    std::map<ClientId, std::int64_t> prompt_tokens = {};  // left for prompts, by client
    ClientSlots slots = {};                               // used, by client
    bool has_preempted = false;
    std::size_t num_fill_bytes = 0;  // loaded from tiers
  };
  // Which sequences a step may compute.
  enum class Kind : std::uint8_t { Mixed, Decode, Prefill };
  // A streamed prompt chunk takes as long as many decode steps, and would take the decoding
  // sequences along on its slow way: it gets a step of its own, and sequences that decode get
  // kDecodeSteps steps before the next one. So does a prompt that is streamed only together with
  // their tokens.
  Kind next_kind();
  std::int64_t num_pending_prefill() const;
  std::int64_t num_decoding() const;
  Schedule schedule(Kind kind);
  static Schedule finish_schedule(Step& step);
  bool outgrows_short_rope(const Sequence& sequence) const;
  void use_long_rope(Sequence& sequence);
  void restart_long_sequences();
  void make_room();
  bool preempt_for(const Sequence& wanted);
  ClientSlots slots_by_client() const;
  std::map<ClientId, std::int64_t> pending_prompts() const;
  // What a running sequence computes.
  enum class Work : std::uint8_t { Decode, Prompt, Embedding };
  static Work work_of(const Sequence& sequence);
  void schedule_running(Step& step, Work work);
  void schedule_waiting(Step& step, bool is_embedding);
  bool allocate_blocks(Step& step, Sequence& sequence, std::int64_t num_tokens);
  void push(Step& step, Sequence& sequence, std::int64_t num_tokens);
  void register_blocks(const ScheduledSequence& scheduled);
  void match_prefix(Sequence& sequence);
  void start_running(Step& step, Sequence& sequence);
  void prepare(Step& step, Sequence& sequence, std::int64_t num_tokens);
  void release_match(Sequence& sequence);
  bool still_lacks_blocks(const Sequence& sequence) const;
  void release_out_of_window(Sequence& sequence);
  std::int64_t max_blocks(std::int64_t num_tokens) const;
  std::int64_t num_missing_blocks(const Sequence& sequence) const;
  void limit_found(Sequence& sequence) const;
  // Tiers below the KV cache.
  bool is_loading(const Sequence& sequence) const;
  bool find_in_tiers(Sequence& sequence);                        // false: is loading
  std::int64_t num_tier_tokens(const Sequence& sequence) const;  // found, not in the cache yet
  bool fill_from_tiers(Step& step, Sequence& sequence);  // false: continues in the next step
  static bool needs_every_position(const Sequence& sequence);
  // Recurrent states.
  void start_states(Step& step, Sequence& sequence);
  void copy_matched(Step& step, Sequence& sequence) const;
  void free_states(Sequence& sequence);
  void add_snapshots(Sequence& sequence);
  void queue_decode_states(Sequence& sequence);
  void plan_checkpoints(ScheduledSequence& scheduled);
  void add_checkpoint(ScheduledSequence& scheduled, std::int64_t num_tokens);
  void preempt(Step& step, Sequence& victim);
  void stop_running(Sequence& sequence);
  std::int64_t chunk_size(const Step& step, const Sequence& sequence) const;
  std::int64_t num_used_slots() const;

  const EngineConfig& config_;
  BlockManager& blocks_;
  std::int64_t stream_from_;
  std::int64_t long_rope_from_;
  std::int64_t window_ = 0;  // 0: all positions are read
  // With a window, tokens that a sequence computes in a step at most, so that they and the window
  // fit into the cache.
  std::int64_t max_chunk_ = 0;
  StateSlots* states_;
  SequenceTiers* tiers_ = nullptr;     // null: none below the KV cache
  std::int64_t num_decode_steps_ = 0;  // since the last streamed chunk
  RankedSequences running_;
  FairQueue waiting_;
  RankedSequences paused_;
  std::int64_t num_preemptions_ = 0;
  std::int64_t num_queried_tokens_ = 0;
  std::int64_t num_hit_tokens_ = 0;
};

}  // namespace graft::engine
