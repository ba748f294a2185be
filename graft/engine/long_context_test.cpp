// What a step costs the host does not grow with the context: counted, not timed.

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <gtest/gtest.h>

#include "graft/engine/sampler.h"
#include "graft/engine/scheduler.h"
#include "graft/engine/token_counts.h"

namespace graft::engine {
namespace {

constexpr std::int64_t kLongPrompt = 128 * 1024;
constexpr std::int64_t kLongBlock = 16;

// A scheduler whose block manager counts the tokens that it hashes.
class LongContext : public testing::Test {
 protected:
  explicit LongContext(std::int64_t num_blocks = kLongPrompt / kLongBlock + 100)
      : blocks_(num_blocks, kLongBlock, true, [this](std::uint64_t parent, auto tokens) {
          num_hashed_ += static_cast<std::int64_t>(tokens.size());
          return BlockManager::default_hash(parent, tokens);
        }) {
    config_.max_num_batched_tokens = 2048;
    config_.chunk_prefill_size = 2048;
    config_.max_num_seqs = 8;
    config_.kvcache_block_size = kLongBlock;
  }

  Sequence& add(std::int64_t num_tokens, TokenId first) {
    auto sequence = std::make_unique<Sequence>();
    sequence->id = {.request = sequences_.size() + 1, .sample = 0};
    sequence->arrival_order = sequences_.size();
    sequence->num_prompt = num_tokens;
    for (std::int64_t i = 0; i < num_tokens; ++i)
      sequence->tokens.push_back(first + static_cast<TokenId>(i));
    scheduler_.add(*sequence);
    sequences_.push_back(std::move(sequence));
    return *sequences_.back();
  }
  void step() {
    for (const ScheduledSequence& scheduled : scheduler_.schedule().sequences) {
      const bool is_complete = scheduled.is_complete();
      scheduled.sequence->num_computed += scheduled.num_tokens;
      if (is_complete) scheduled.sequence->tokens.push_back(7);
    }
  }
  void prefill(const Sequence& sequence) {
    while (sequence.num_output() == 0)
      step();
  }

  std::int64_t num_hashed_ = 0;
  EngineConfig config_;
  BlockManager blocks_;
  Scheduler scheduler_{config_, blocks_};
  std::vector<std::unique_ptr<Sequence>> sequences_;
};

TEST_F(LongContext, EveryTokenIsHashedAConstantNumberOfTimes) {
  const Sequence& sequence = add(kLongPrompt, 0);
  prefill(sequence);
  // Looked up before it is computed, and registered: found, then hashed for its entry.
  EXPECT_LE(num_hashed_, 4 * kLongPrompt);
  num_hashed_ = 0;
  for (int i = 0; i < 160; ++i)
    step();
  EXPECT_LE(num_hashed_, 4 * 160);
}

// The prompt that waits is in the prefix cache with all of its blocks.
TEST_F(LongContext, AWaitingPromptIsNotLookedUpInEveryStep) {
  const std::int64_t half = kLongPrompt / 2;
  prefill(add(half, 0));
  scheduler_.remove(*sequences_.back());
  // Holds so many blocks that the first prompt and more output do not fit.
  Sequence& running = add(half + 90 * kLongBlock, 1'000'000);
  prefill(running);
  Sequence& waiting = add(half + 200 * kLongBlock, 0);
  step();
  EXPECT_EQ(waiting.state, SequenceState::Waiting);
  num_hashed_ = 0;
  for (int i = 0; i < 100; ++i)
    step();
  EXPECT_EQ(waiting.state, SequenceState::Waiting);
  EXPECT_LE(num_hashed_, 2 * half) << "once, not 100 times";
  scheduler_.remove(running);
  step();
  EXPECT_EQ(waiting.state, SequenceState::Running);
}

TEST(TokenCounts, CountEveryTokenOnce) {
  TokenCounts counts;
  std::vector<TokenId> tokens = {1, 2, 2};
  counts.update(tokens, 3);
  EXPECT_EQ(counts.num_counted(), 3);
  EXPECT_EQ(counts.counts().at(2), 0) << "of the prompt";
  tokens.insert(tokens.end(), {2, 5, 5});
  counts.update(tokens, 3);
  counts.update(tokens, 3);
  EXPECT_EQ(counts.num_counted(), 6);
  EXPECT_EQ(counts.counts().size(), 3U);
  EXPECT_EQ(counts.counts().at(2), 1);
  EXPECT_EQ(counts.counts().at(5), 2);
}

// Penalties from kept counts are those of counting all tokens again.
TEST(TokenCounts, SampleTheSameTokens) {
  SamplingParams params;
  params.repetition_penalty = 1.3;
  params.presence_penalty = 0.4;
  params.frequency_penalty = 0.2;
  std::vector<TokenId> tokens = {3, 3, 9};
  TokenCounts counts;
  for (int i = 0; i < 40; ++i) {
    const SamplingContext context = {.params = &params,
                                     .prompt = std::span(tokens).first(3),
                                     .output = std::span(tokens).subspan(3),
                                     .seed = 5};
    std::vector<float> logits;
    for (int k = 0; k < 24; ++k)
      logits.push_back(static_cast<float>((k * 37 + i) % 11) * 0.4F - 1.5F);
    std::vector<float> again = logits;
    const auto want = distribution(logits, context);
    SamplingContext kept = context;
    counts.update(tokens, 3);
    kept.counts = &counts;
    const auto got = distribution(again, kept);
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t k = 0; k < want.size(); ++k)
      EXPECT_EQ(got[k].prob, want[k].prob);
    tokens.push_back(static_cast<TokenId>(i * 7 % 24));
  }
}

}  // namespace
}  // namespace graft::engine
