// Which tokens of which sequences the next step computes. One budget of tokens serves all: first
// every sequence that generates gets its token, then prompts are computed in chunks, then new
// sequences come in, best rank first. When the cache is full the worst-ranked running sequence
// gives up its blocks and is computed again later.
//
// Generating never waits for prompts (it is served first), and prompts never wait for generating
// (the budget is at least one token per seat).

#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "graft/engine/block_manager.h"
#include "graft/engine/config.h"
#include "graft/engine/sequence.h"

namespace graft::engine {

struct ScheduledSequence {
  Sequence* sequence = nullptr;
  std::int64_t num_tokens = 0;  // from sequence->num_computed on

  // Whether the next token can be chosen after this step.
  bool is_complete() const { return sequence->num_pending() == num_tokens; }
};

struct Schedule {
  std::vector<ScheduledSequence> sequences;
  std::vector<BlockCopy> copies;    // to be done first
  std::vector<Sequence*> too_long;  // grew beyond the whole cache: must end

  bool empty() const { return sequences.empty(); }
};

class Scheduler {
 public:
  // Both must outlive it. The config was resolved.
  Scheduler(const EngineConfig& config, BlockManager& blocks);

  // Sequences belong to the caller and stay where they are until removed.
  void add(Sequence& sequence);
  // A running one made from another (which has computed its prompt); it shares its blocks.
  void add_fork(Sequence& sequence);
  // Wherever it is; its blocks are freed.
  void remove(Sequence& sequence);

  Schedule schedule();

  bool is_idle() const { return running_.empty() && waiting_.empty(); }
  std::int64_t num_running() const { return static_cast<std::int64_t>(running_.size()); }
  std::int64_t num_waiting() const { return static_cast<std::int64_t>(waiting_.size()); }
  std::int64_t num_preemptions() const { return num_preemptions_; }
  // Tokens of admitted sequences, and those of them that need not be computed.
  std::int64_t num_queried_tokens() const { return num_queried_tokens_; }
  std::int64_t num_hit_tokens() const { return num_hit_tokens_; }

 private:
  struct BetterRank {
    bool operator()(const Sequence* a, const Sequence* b) const { return a->rank() < b->rank(); }
  };
  using Queue = std::set<Sequence*, BetterRank>;

  // One pass over the schedule being made.
  struct Step {
    Schedule schedule;
    std::int64_t budget = 0;
    bool has_preempted = false;
  };
  void schedule_running(Step& step, bool generating);
  void schedule_waiting(Step& step);
  bool make_room(Step& step, Sequence& sequence, std::int64_t num_tokens);
  void put(Step& step, Sequence& sequence, std::int64_t num_tokens);
  void register_blocks(const ScheduledSequence& scheduled);
  void match_prefix(Sequence& sequence);
  void preempt(Step& step, Sequence& victim);
  std::int64_t chunk_of(const Sequence& sequence, std::int64_t budget) const;
  std::int64_t num_seats() const;

  const EngineConfig& config_;
  BlockManager& blocks_;
  Queue running_;
  Queue waiting_;
  std::int64_t num_preemptions_ = 0;
  std::int64_t num_queried_tokens_ = 0;
  std::int64_t num_hit_tokens_ = 0;
};

}  // namespace graft::engine
