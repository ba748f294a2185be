// Runs the scheduler on a simulated KV cache whose rows store a hash of all tokens up to their
// position: after sharing, copy-on-write, preemption and reuse, every sequence must read the hashes
// of its own tokens. The same for recurrent states: a slot stores the hash of all tokens so far.

#include "graft/engine/scheduler.h"

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <utility>

#include <gtest/gtest.h>

#include "graft/base/text/str.h"

namespace graft::engine {
namespace {

// Stands for the keys and values of a position: a hash of all tokens up to it.
using Row = std::uint64_t;

Row next_row(Row before, TokenId token) {
  return (before ^ static_cast<Row>(token + 1)) * 0x9E3779B97F4A7C15U + 1;
}

class Simulation {
 public:
  explicit Simulation(const EngineConfig& config,
                      std::int64_t stream_from = 0,
                      std::int64_t long_rope_from = 0,
                      std::int64_t num_state_slots = 0,
                      std::int64_t window = 0)
      : long_rope_from_(long_rope_from),
        window_(window),
        config_(config),
        blocks_(config.num_kvcache_blocks, config.kvcache_block_size, config.enable_prefix_caching),
        states_(num_state_slots == 0
                    ? nullptr
                    : std::make_unique<StateSlots>(num_state_slots, config.max_num_seqs)),
        slots_(static_cast<std::size_t>(num_state_slots)),
        scheduler_(config_, blocks_, stream_from, long_rope_from, states_.get()),
        rows_(static_cast<std::size_t>(config.num_kvcache_blocks * config.kvcache_block_size)) {
    scheduler_.use_window(window);
  }

  Sequence& add(std::vector<TokenId> prompt,
                std::int64_t max_tokens,
                std::int64_t n = 1,
                std::int64_t priority = 0,
                std::uint64_t client = 0) {
    auto sequence = std::make_unique<Sequence>();
    sequence->id = {.request = next_id_++, .sample = 0};
    sequence->arrival_order = sequence->id.request;
    sequence->priority = priority;
    sequence->client = client;
    sequence->num_prompt = static_cast<std::int64_t>(prompt.size());
    sequence->tokens = std::move(prompt);
    sequence->params.n = n;
    sequence->params.max_tokens = max_tokens;
    Sequence& added = *sequence;
    sequences_.emplace(added.id, std::move(sequence));
    scheduler_.add(added);
    num_expected_ += n;
    return added;
  }

  // One step; returns the number of tokens computed.
  std::int64_t step() {
    Schedule schedule = scheduler_.schedule();
    if (max_drafts_ > 0) add_drafts(schedule);
    for (Sequence* sequence : schedule.too_long)
      end(*sequence);
    check_limits(schedule);
    write(schedule);
    std::int64_t num_tokens = 0;
    for (const ScheduledSequence& scheduled : schedule.sequences) {
      check_context(scheduled);
      num_tokens += scheduled.num_tokens;
    }
    for (const ScheduledSequence& scheduled : schedule.sequences) {
      Sequence& sequence = *scheduled.sequence;
      if (!scheduled.drafts.empty())
        blocks_.trim(sequence.table, sequence.num_computed + scheduled.num_tokens);
      commit(scheduled);
    }
    return num_tokens;
  }

  // From now on up to this many guessed tokens, all of them wrong, follow those of sequences.
  void guess(std::int64_t max_drafts) { max_drafts_ = max_drafts; }
  std::int64_t num_drafts() const { return num_drafts_; }

  void end(Sequence& sequence) {
    ++num_ended_;
    const SequenceId id = sequence.id;
    // A sequence that has not forked yet ends all its samples.
    num_ended_ += sequence.params.n - 1;
    scheduler_.remove(sequence);
    sequences_.erase(id);
  }

  Sequence* any(std::mt19937& random) {
    if (sequences_.empty()) return nullptr;
    auto entry = sequences_.begin();
    std::advance(entry, random() % sequences_.size());
    return entry->second.get();
  }

  const Scheduler& scheduler() const { return scheduler_; }
  const BlockManager& blocks() const { return blocks_; }
  const StateSlots& states() const { return *states_; }
  bool has_states() const { return states_ != nullptr; }
  std::size_t num_left() const { return sequences_.size(); }
  std::int64_t num_expected() const { return num_expected_; }
  std::int64_t num_ended() const { return num_ended_; }
  std::vector<SequenceId> log;  // the sequence of each output token, in order

 private:
  Row& row(const Sequence& sequence, std::int64_t position) {
    const std::int64_t size = blocks_.block_tokens();
    const BlockId block = sequence.table.blocks.at(static_cast<std::size_t>(position / size));
    return rows_[static_cast<std::size_t>(block * size + position % size)];
  }

  void add_drafts(Schedule& schedule) {
    const std::int64_t num_preemptions = scheduler_.num_preemptions();
    const std::size_t num_scheduled = schedule.sequences.size();
    for (ScheduledSequence& scheduled : schedule.sequences) {
      if (!scheduled.is_complete() || scheduled.num_tokens > 1 || random_() % 3 == 0) continue;
      const auto count =
          static_cast<std::size_t>(random_()) % static_cast<std::size_t>(max_drafts_ + 1);
      scheduler_.add_drafts(schedule, scheduled, std::vector<TokenId>(count, 9));
      num_drafts_ += static_cast<std::int64_t>(scheduled.drafts.size());
    }
    ASSERT_EQ(scheduler_.num_preemptions(), num_preemptions);
    ASSERT_EQ(schedule.sequences.size(), num_scheduled);
  }

  // Rows that nothing reads, in blocks of the sequence alone.
  void write_drafts(const ScheduledSequence& scheduled) {
    const Sequence& sequence = *scheduled.sequence;
    const std::int64_t begin = sequence.num_computed + scheduled.num_tokens;
    for (std::int64_t i = begin; i < sequence.num_computed + scheduled.num_rows(); ++i) {
      const auto block = static_cast<std::size_t>(i / blocks_.block_tokens());
      ASSERT_EQ(blocks_.ref_count(sequence.table.blocks.at(block)), 1);
      ASSERT_GE(static_cast<std::int64_t>(block), sequence.table.num_registered);
      row(sequence, i) = 77;
    }
  }

  void check_limits(const Schedule& schedule) {
    std::int64_t num_tokens = 0;
    for (const ScheduledSequence& scheduled : schedule.sequences) {
      ASSERT_GE(scheduled.num_tokens, 1);
      num_tokens += scheduled.num_rows();
    }
    ASSERT_LE(num_tokens, config_.max_num_batched_tokens);
    ASSERT_LE(scheduler_.num_running(), config_.max_num_seqs);
    // Every step makes progress.
    ASSERT_TRUE(num_tokens > 0 || scheduler_.is_idle() || !schedule.too_long.empty());
  }

  // Keys of long sequences are rotated otherwise.
  static Row first_row(const Sequence& sequence) { return sequence.uses_long_rope ? 12345 : 0; }

  // As a layer does: all block copies, then all writes of the batch, then reads.
  void write(const Schedule& schedule) {
    const auto size = static_cast<std::ptrdiff_t>(blocks_.block_tokens());
    for (const BlockCopy& copy : schedule.copies) {
      std::copy_n(rows_.begin() + copy.from * size, size, rows_.begin() + copy.to * size);
    }
    for (const StateCopy& copy : schedule.state_copies)
      slot(copy.to) = slot(copy.from);
    for (const ScheduledSequence& scheduled : schedule.sequences) {
      const Sequence& sequence = *scheduled.sequence;
      if (states_ != nullptr) write_state(scheduled);
      Row value = first_row(sequence);
      for (std::int64_t i = 0; i < sequence.num_computed + scheduled.num_tokens; ++i) {
        value = next_row(value, sequence.tokens[static_cast<std::size_t>(i)]);
        if (i < sequence.num_computed) continue;
        const std::int64_t block = i / blocks_.block_tokens();
        ASSERT_EQ(num_readers(sequence, static_cast<std::size_t>(block), i), 0)
            << "a row that another sequence reads is overwritten";
        row(sequence, i) = value;
      }
      write_drafts(scheduled);
    }
  }

  Row& slot(SlotId id) { return slots_.at(static_cast<std::size_t>(id)); }

  // The slot must hold the state after the computed tokens.
  void write_state(const ScheduledSequence& scheduled) {
    const Sequence& sequence = *scheduled.sequence;
    Row value = first_row(sequence);
    for (std::int64_t i = 0; i < sequence.num_computed + scheduled.num_tokens; ++i) {
      if (i > 0 && i == sequence.num_computed) {
        ASSERT_EQ(slot(sequence.state_slot), value) << "state of request " << sequence.id.request;
      }
      value = next_row(value, sequence.tokens[static_cast<std::size_t>(i)]);
      for (const ops::StateCheckpoint& checkpoint : scheduled.checkpoints) {
        if (i + 1 == sequence.num_computed + checkpoint.num_tokens) slot(checkpoint.slot) = value;
      }
    }
    slot(sequence.state_slot) = value;
    ASSERT_LE(scheduled.checkpoints.size(), ops::kMaxStateCheckpoints);
  }

  // The first position that the token at `position` attends to.
  std::int64_t first_read(std::int64_t position) const {
    return window_ == 0 ? 0 : std::max<std::int64_t>(0, position + 1 - window_);
  }

  // Other sequences whose context includes this row of this block.
  std::int64_t num_readers(const Sequence& writer, std::size_t block, std::int64_t i) {
    std::int64_t count = 0;
    for (const auto& [id, other] : sequences_) {
      if (other.get() == &writer || block >= other->table.blocks.size()) continue;
      if (other->table.blocks[block] != writer.table.blocks[block]) continue;
      if (i < first_read(other->num_computed)) continue;
      count += other->num_computed > i && !shares_this_step(writer, *other, i) ? 1 : 0;
    }
    return count;
  }
  // Writing a shared row is allowed when both sequences have the same tokens up to it.
  static bool shares_this_step(const Sequence& a, const Sequence& b, std::int64_t i) {
    return b.num_tokens() > i &&
           std::equal(a.tokens.begin(), a.tokens.begin() + i + 1, b.tokens.begin());
  }

  void check_context(const ScheduledSequence& scheduled) {
    const Sequence& sequence = *scheduled.sequence;
    if (long_rope_from_ > 0) {
      // Of the whole sequence, not of the chunk.
      ASSERT_EQ(sequence.uses_long_rope, sequence.num_tokens() > long_rope_from_);
    }
    Row value = first_row(sequence);
    for (std::int64_t i = 0; i < sequence.num_computed + scheduled.num_tokens; ++i) {
      value = next_row(value, sequence.tokens[static_cast<std::size_t>(i)]);
      if (i < first_read(sequence.num_computed)) continue;
      ASSERT_EQ(row(sequence, i), value)
          << "position " << i << " of request " << sequence.id.request;
    }
  }

  void commit(const ScheduledSequence& scheduled) {
    Sequence& sequence = *scheduled.sequence;
    const bool is_complete = scheduled.is_complete();
    sequence.num_computed += scheduled.num_tokens;
    if (!is_complete) return;
    const std::int64_t num_samples = std::exchange(sequence.params.n, 1);
    for (std::int64_t sample = 1; sample < num_samples; ++sample) {
      auto fork = std::make_unique<Sequence>();
      fork->id = {.request = sequence.id.request, .sample = sample};
      fork->arrival_order = sequence.arrival_order;
      fork->priority = sequence.priority;
      fork->client = sequence.client;
      fork->num_prompt = sequence.num_prompt;
      fork->tokens = sequence.tokens;
      fork->params = sequence.params;
      fork->num_computed = sequence.num_computed;
      fork->table = blocks_.fork(sequence.table);
      fork->uses_long_rope = sequence.uses_long_rope;
      if (states_ != nullptr) {
        fork->state_slot = states_->allocate();
        slot(fork->state_slot) = slot(sequence.state_slot);
      }
      scheduler_.add_fork(*fork);
      Sequence& added = *fork;
      sequences_.emplace(fork->id, std::move(fork));
      append_token(added);
    }
    append_token(sequence);
  }

  // Only two different tokens, so that outputs also share prefixes by chance.
  void append_token(Sequence& sequence) {
    log.push_back(sequence.id);
    sequence.tokens.push_back(static_cast<TokenId>(random_() % 2));
    if (sequence.num_output() >= *sequence.params.max_tokens) end(sequence);
  }

  std::int64_t long_rope_from_;
  std::int64_t window_;
  EngineConfig config_;
  BlockManager blocks_;
  std::unique_ptr<StateSlots> states_;  // null: no recurrent states
  std::vector<Row> slots_;
  Scheduler scheduler_;
  std::vector<Row> rows_;
  std::map<SequenceId, std::unique_ptr<Sequence>> sequences_;
  RequestId next_id_ = 1;
  std::int64_t num_expected_ = 0;
  std::int64_t num_ended_ = 0;
  std::int64_t max_drafts_ = 0;
  std::int64_t num_drafts_ = 0;
  std::mt19937 random_{7};
};

EngineConfig config_of(std::int64_t budget,
                       std::int64_t slots,
                       std::int64_t blocks,
                       std::int64_t size) {
  EngineConfig config;
  config.max_num_batched_tokens = budget;
  config.max_num_seqs = slots;
  config.num_kvcache_blocks = blocks;
  config.kvcache_block_size = size;
  config.chunk_prefill_size = budget;
  return config;
}

std::vector<TokenId> prompt_of(std::int64_t length, TokenId first = 0) {
  std::vector<TokenId> tokens(static_cast<std::size_t>(length));
  for (std::size_t i = 0; i < tokens.size(); ++i)
    tokens[i] = first + static_cast<TokenId>(i);
  return tokens;
}

void run_to_end(Simulation& simulation, int max_steps = 100'000) {
  for (int i = 0; i < max_steps && simulation.num_left() > 0; ++i) {
    simulation.step();
    if (testing::Test::HasFatalFailure()) return;
  }
  EXPECT_EQ(simulation.num_left(), 0U);
  EXPECT_EQ(simulation.num_ended(), simulation.num_expected());
  EXPECT_EQ(simulation.blocks().num_free(), simulation.blocks().num_blocks());
  if (simulation.has_states()) {
    EXPECT_EQ(static_cast<std::int64_t>(simulation.states().free_slots().size()) +
                  simulation.states().num_snapshots(),
              simulation.states().num_slots());
  }
}

TEST(Scheduler, MixesPrefillChunksWithDecode) {
  Simulation simulation(config_of(8, 4, 100, 4));
  simulation.add(prompt_of(4), 10);
  EXPECT_EQ(simulation.step(), 4);
  simulation.add(prompt_of(30, 100), 10);
  // One decode token of the first and seven prompt tokens of the second.
  EXPECT_EQ(simulation.step(), 8);
  EXPECT_EQ(simulation.step(), 8);
  EXPECT_EQ(simulation.log.size(), 3U);
  run_to_end(simulation);
}

// A sequence of up to 10 tokens has the short factors; its eleventh token starts it again, without
// blocks of short sequences that have the same tokens.
TEST(Scheduler, RecomputesSequencesThatOutgrowLongRopesShortFactors) {
  Simulation simulation(config_of(16, 4, 100, 4), 0, /*long_rope_from=*/10);
  simulation.add(prompt_of(8), 6);
  EXPECT_EQ(simulation.step(), 8);
  EXPECT_EQ(simulation.step(), 1);
  EXPECT_EQ(simulation.step(), 1);
  EXPECT_EQ(simulation.step(), 11);
  EXPECT_EQ(simulation.step(), 1);
  simulation.add(prompt_of(30), 3, 2);  // long from its first chunk on; shares no short blocks
  simulation.add(prompt_of(9), 8);
  run_to_end(simulation);
}

// Steps with streamed prompts: 4 decode tokens or up to 20 prompt tokens, never both.
TEST(Scheduler, GivesStreamedPromptsTheirOwnStepsBetweenDecodeSteps) {
  Simulation simulation(config_of(20, 8, 200, 4), /*stream_from=*/16);
  for (TokenId i = 0; i < 4; ++i)
    simulation.add(prompt_of(3, 100 * i), 100);
  EXPECT_EQ(simulation.step(), 12);
  simulation.add(prompt_of(50, 1000), 2);
  std::vector<std::int64_t> steps;
  for (int i = 0; i < 27; ++i)
    steps.push_back(simulation.step());
  const std::vector<std::int64_t> expected = {4, 4, 4, 4, 4, 4, 4, 4, 20,  //
                                              4, 4, 4, 4, 4, 4, 4, 4, 20,
                                              // The last ten tokens are too few to be streamed.
                                              14, 5, 4, 4, 4, 4, 4, 4, 4};
  EXPECT_EQ(steps, expected);
  run_to_end(simulation);
}

// 12 sequences decode, and 6 prompt tokens alone would not be streamed: with them they would.
TEST(Scheduler, StreamsNoDecodeTokensWithAShortPrompt) {
  Simulation simulation(config_of(64, 16, 400, 4), /*stream_from=*/16);
  for (TokenId i = 0; i < 12; ++i)
    simulation.add(prompt_of(1, 100 * i), 100);
  EXPECT_EQ(simulation.step(), 12);
  simulation.add(prompt_of(6, 5000), 2);
  std::vector<std::int64_t> steps;
  for (int i = 0; i < 10; ++i)
    steps.push_back(simulation.step());
  EXPECT_EQ(steps, (std::vector<std::int64_t>{12, 12, 12, 12, 12, 12, 12, 12, 6, 13}));
  simulation.add(prompt_of(3, 6000), 2);
  EXPECT_EQ(simulation.step(), 12 + 3) << "15 tokens are not streamed";
  run_to_end(simulation);
}

TEST(Scheduler, StreamsPromptsAtOnceWhenNothingDecodes) {
  Simulation simulation(config_of(20, 8, 200, 4), /*stream_from=*/16);
  simulation.add(prompt_of(50), 2);
  EXPECT_EQ(simulation.step(), 20);
  EXPECT_EQ(simulation.step(), 20);
  EXPECT_EQ(simulation.step(), 10);
  run_to_end(simulation);
}

TEST(Scheduler, KeepsDecodingWhileAStreamedPromptWaitsForBlocks) {
  Simulation simulation(config_of(20, 8, 12, 4), /*stream_from=*/16);
  simulation.add(prompt_of(8), 20);
  EXPECT_EQ(simulation.step(), 8);
  simulation.add(prompt_of(36, 1000), 2);
  run_to_end(simulation);
}

TEST(Scheduler, IdenticalPromptsInOneStepShareBlocks) {
  Simulation simulation(config_of(100, 4, 100, 4));
  simulation.add(prompt_of(17), 3);
  simulation.add(prompt_of(17), 3);
  // 17 tokens of the first, and only the token of the last block of the second.
  EXPECT_EQ(simulation.step(), 18);
  EXPECT_EQ(simulation.blocks().num_blocks() - simulation.blocks().num_free(), 4 + 1 + 1);
  run_to_end(simulation);
}

TEST(Scheduler, ChunkedPromptsReuseBlocksComputedMeanwhile) {
  Simulation simulation(config_of(8, 4, 100, 4));
  simulation.add(prompt_of(41), 1);
  simulation.add(prompt_of(41), 1);
  std::int64_t total = 0;
  while (simulation.num_left() > 0)
    total += simulation.step();
  EXPECT_LE(total, 41 + 8);
}

TEST(Scheduler, ClientsShareSlots) {
  Simulation simulation(config_of(32, 4, 200, 4));
  for (TokenId i = 0; i < 20; ++i)
    simulation.add(prompt_of(4, 100 * i), 50, 1, 0, /*client=*/1);
  for (int i = 0; i < 3; ++i)
    simulation.step();
  const SequenceId other = simulation.add(prompt_of(4, 5000), 4, 1, 0, /*client=*/2).id;
  simulation.log.clear();
  // A prompt step and three decode steps, although all slots were taken and 16 sequences waited.
  for (int i = 0; i < 4; ++i)
    simulation.step();
  EXPECT_EQ(std::ranges::count(simulation.log, other), 4);
  EXPECT_EQ(simulation.scheduler().num_preemptions(), 1);
  run_to_end(simulation);
}

TEST(Scheduler, ClientsShareThePromptTokensOfAStep) {
  Simulation simulation(config_of(16, 4, 1000, 4));
  simulation.add(prompt_of(1000), 1, 1, 0, /*client=*/1);
  EXPECT_EQ(simulation.step(), 16);
  const SequenceId other = simulation.add(prompt_of(7, 5000), 1, 1, 0, /*client=*/2).id;
  EXPECT_EQ(simulation.step(), 16) << "what the second client does not need goes to the first";
  EXPECT_EQ(simulation.log, std::vector<SequenceId>{other});
  run_to_end(simulation);
}

TEST(Scheduler, ClientsTakeTurnsInTheQueue) {
  Simulation simulation(config_of(16, 1, 100, 4));
  for (TokenId i = 0; i < 10; ++i)
    simulation.add(prompt_of(4, 100 * i), 2, 1, /*priority=*/-1, /*client=*/1);
  simulation.step();
  const SequenceId other = simulation.add(prompt_of(4, 5000), 2, 1, 0, /*client=*/2).id;
  simulation.log.clear();
  for (int i = 0; i < 3; ++i)
    simulation.step();
  EXPECT_EQ(std::ranges::count(simulation.log, other), 2)
      << "after the running one; a priority counts only within a client";
  run_to_end(simulation);
}

TEST(Scheduler, NewPromptsDoNotStarveDecode) {
  Simulation simulation(config_of(16, 16, 1000, 4));
  simulation.add(prompt_of(4, 5000), 50);
  int num_decode_steps = 0;
  for (int i = 0; i < 40; ++i) {
    simulation.add(prompt_of(16, 100 * i), 1);
    simulation.log.clear();
    simulation.step();
    num_decode_steps += std::ranges::count(simulation.log, SequenceId{1, 0}) > 0 ? 1 : 0;
  }
  EXPECT_EQ(num_decode_steps, 40);
  run_to_end(simulation);
}

TEST(Scheduler, DecodeDoesNotStarvePrefill) {
  Simulation simulation(config_of(8, 8, 1000, 4));
  for (int i = 0; i < 7; ++i)
    simulation.add(prompt_of(2, 100 * i), 500);
  for (int i = 0; i < 10; ++i)
    simulation.step();
  Sequence& late = simulation.add(prompt_of(40, 9000), 5);
  const SequenceId id = late.id;
  // One token of the budget is left for it per step.
  for (int i = 0; i < 41; ++i)
    simulation.step();
  EXPECT_GE(std::ranges::count(simulation.log, id), 1);
}

TEST(Scheduler, LowerPriorityValueRunsFirst) {
  Simulation simulation(config_of(4, 1, 100, 4));
  simulation.add(prompt_of(4), 1, 1, 5);
  simulation.add(prompt_of(4, 50), 1, 1, 1);
  simulation.add(prompt_of(4, 90), 1, 1, 5);
  while (simulation.num_left() > 0)
    simulation.step();
  EXPECT_EQ(simulation.log, (std::vector<SequenceId>{{2, 0}, {1, 0}, {3, 0}}));
}

TEST(Scheduler, PreemptsNewestAndFinishesAll) {
  // Three sequences of four blocks each on a cache of six.
  Simulation simulation(config_of(64, 8, 6, 4));
  for (int i = 0; i < 3; ++i)
    simulation.add(prompt_of(6, 100 * i), 10);
  run_to_end(simulation);
  EXPECT_GT(simulation.scheduler().num_preemptions(), 0);
}

TEST(Scheduler, SequenceBeyondCacheSizeEndsAlone) {
  Simulation simulation(config_of(64, 8, 6, 4));
  simulation.add(prompt_of(6), 1000);
  simulation.add(prompt_of(6, 100), 4);
  run_to_end(simulation);
}

TEST(Scheduler, ForksOutOfBlocksEnd) {
  // The shared prompt uses five of six blocks; each sample needs up to two more.
  Simulation simulation(config_of(64, 8, 6, 4));
  simulation.add(prompt_of(19), 9, 3);
  run_to_end(simulation);
}

std::int64_t num_used(const Simulation& simulation) {
  return simulation.blocks().num_blocks() - simulation.blocks().num_free();
}

TEST(Scheduler, ASequenceLongerThanTheCacheKeepsTheBlocksOfItsWindow) {
  for (const bool caching : {true, false}) {
    EngineConfig config = config_of(64, 8, 12, 4);  // 48 tokens
    config.enable_prefix_caching = caching;
    Simulation simulation(config, 0, 0, 0, /*window=*/10);
    EXPECT_TRUE(simulation.scheduler().can_hold(1'000'000));
    simulation.add(prompt_of(300), 200);
    std::int64_t num_steps = 0;
    for (; simulation.num_left() > 0; ++num_steps) {
      simulation.step();
      // Nine tokens of the window before the next one, which begin inside a block.
      if (simulation.log.size() > 1) {
        EXPECT_LE(num_used(simulation), 4);
      }
    }
    EXPECT_EQ(simulation.log.size(), 200U);
    EXPECT_EQ(simulation.scheduler().num_preemptions(), 0);
    EXPECT_LE(num_steps, 300 / 35 + 1 + 200) << "chunks fill the cache";
    EXPECT_GE(simulation.blocks().num_released(), 499 / 4 - 4);
  }
  // Too small for the window and a block beside it.
  Simulation small(config_of(64, 8, 3, 4), 0, 0, 0, /*window=*/10);
  EXPECT_FALSE(small.scheduler().can_hold(13));
  EXPECT_TRUE(small.scheduler().can_hold(12));
}

TEST(Scheduler, BlocksOutOfTheWindowStayCachedAndAreSharedUntilEveryReaderLeft) {
  Simulation simulation(config_of(64, 8, 100, 4), 0, 0, 0, /*window=*/8);
  simulation.add(prompt_of(60), 1);
  while (simulation.num_left() > 0)
    simulation.step();
  simulation.add(prompt_of(61), 20, /*n=*/2);
  EXPECT_EQ(simulation.step(), 1);
  EXPECT_EQ(simulation.scheduler().num_hit_tokens(), 60);
  simulation.step();
  // Both samples: the shared block before the window's last tokens, and one of each for its own.
  EXPECT_LE(num_used(simulation), 5);
  run_to_end(simulation);
  simulation.add(prompt_of(60), 1);
  EXPECT_EQ(simulation.step(), 4) << "all but the block of the last token";
}

struct Workload {
  std::int64_t budget, slots, blocks, block_tokens, chunk;
  bool caching;
};

class SchedulerRandom : public testing::TestWithParam<Workload> {};

void run_random_load(const Workload& load,
                     std::int64_t num_state_slots,
                     std::int64_t window = 0,
                     std::int64_t max_drafts = 0) {
  EngineConfig config = config_of(load.budget, load.slots, load.blocks, load.block_tokens);
  config.chunk_prefill_size = load.chunk;
  config.enable_prefix_caching = load.caching;
  Simulation simulation(config, 0, 0, num_state_slots, window);
  simulation.guess(max_drafts);
  std::mt19937 random(static_cast<unsigned>(load.blocks * 31 + load.budget));
  const auto pick = [&](std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(high - low + 1));
  };
  const std::int64_t capacity = load.blocks * load.block_tokens;
  const std::int64_t max_prompt = window == 0 ? capacity / 2 : 2 * capacity;
  for (int i = 0; i < 20'000; ++i) {
    if (simulation.num_left() < 40 && pick(0, 2) == 0) {
      // Four different prefixes, so that blocks are shared.
      std::vector<TokenId> prompt =
          prompt_of(pick(1, max_prompt), static_cast<TokenId>(pick(0, 3)) * 1000);
      for (std::int64_t k = pick(0, 5); k > 0 && k < static_cast<std::int64_t>(prompt.size()); --k)
        prompt[prompt.size() - static_cast<std::size_t>(k)] = static_cast<TokenId>(pick(0, 1));
      simulation.add(std::move(prompt), pick(1, 30),
                     pick(0, 3) == 0 ? pick(1, std::min<std::int64_t>(3, load.slots)) : 1,
                     pick(0, 9) == 0 ? -1 : 0, static_cast<std::uint64_t>(pick(0, 2)));
    }
    if (pick(0, 49) == 0) {
      if (Sequence* victim = simulation.any(random)) simulation.end(*victim);
    }
    simulation.step();
    if (testing::Test::HasFatalFailure()) return;
  }
  EXPECT_EQ(simulation.scheduler().num_hit_tokens() > 0, load.caching);
  run_to_end(simulation);
  EXPECT_EQ(simulation.num_drafts() > 1000, max_drafts > 0) << simulation.num_drafts();
}

TEST_P(SchedulerRandom, KeepsInvariantsUnderRandomLoad) {
  run_random_load(GetParam(), 0);
}

TEST_P(SchedulerRandom, GuessedTokensDisturbNothing) {
  run_random_load(GetParam(), 0, 0, 6);
  run_random_load(GetParam(), 0, 5, 20);
}

// Also longer than the cache: rows of released blocks are overwritten by others.
TEST_P(SchedulerRandom, FreesBlocksOutOfTheWindowUnderRandomLoad) {
  for (const std::int64_t window : {1, 5, 17})
    run_random_load(GetParam(), 0, window);
  run_random_load(GetParam(), GetParam().slots + 2, 7);
}

// With few and with many slots for snapshots.
TEST_P(SchedulerRandom, KeepsRecurrentStatesUnderRandomLoad) {
  run_random_load(GetParam(), GetParam().slots + 2);
  run_random_load(GetParam(), 4 * GetParam().slots);
}

INSTANTIATE_TEST_SUITE_P(Loads,
                         SchedulerRandom,
                         testing::Values(Workload{16, 8, 12, 4, 16, true},
                                         Workload{8, 8, 40, 2, 3, true},
                                         Workload{64, 32, 30, 8, 64, true},
                                         Workload{64, 16, 200, 1, 7, true},
                                         Workload{16, 8, 16, 4, 16, false}));

}  // namespace
}  // namespace graft::engine
