// One sequence: its tokens, how many of them are computed, and the KV cache blocks that hold them.

#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "graft/engine/adapters/adapters.h"
#include "graft/engine/block_manager.h"
#include "graft/engine/images/image_tokens.h"
#include "graft/engine/pooler.h"
#include "graft/engine/sampling/line_limits.h"
#include "graft/engine/sampling_params.h"
#include "graft/engine/states/state_slots.h"
#include "graft/engine/tiers/block_key.h"
#include "graft/engine/tiers/tier_entry.h"
#include "graft/engine/token_counts.h"
#include "graft/grammar/output_matcher.h"
#include "graft/llm.h"
#include "graft/tokenizer/detokenizer.h"

namespace graft::engine {

class TierLoad;
struct SequenceSpeculation;

using graft::Finish;
using graft::FinishReason;
using graft::RequestId;
using graft::SequenceId;
using graft::TokenLogprobs;
using Clock = std::chrono::steady_clock;

enum class SequenceState : std::uint8_t { Waiting, Running, Finished };

struct Sequence {
  SequenceId id;
  SamplingParams params;  // params.n: sequences that this one still forks into, itself included
  std::uint64_t seed = 0;
  std::uint64_t client = 0;         // share_of(SubmitOptions::client, adapter)
  std::int64_t priority = 0;        // lower runs first, within the client
  std::uint64_t arrival_order = 0;  // order of submission
  std::int64_t num_prompt = 0;      // prompt tokens

  std::vector<TokenId> tokens;             // prompt, then output
  std::vector<SequenceImage> images = {};  // in the prompt, ascending
  std::vector<TokenId> text_prompt = {};   // with images: the prompt without them
  // Leading tokens whose keys and values are in the KV cache, or will be at the end of the step
  // that a device is running.
  std::int64_t num_computed = 0;
  // Tokens that steps in flight sample and `tokens` does not have yet: one, or two while the next
  // step is started. The last one is row `sampled_row` of the logits of its step.
  std::int64_t num_in_flight = 0;
  bool is_last_in_flight = false;  // the last of them will end the sequence: it is too long
  std::int32_t sampled_row = 0;
  BlockTable table;
  AdapterRef adapter;  // null: none
  // Of models with recurrent states.
  SlotId state_slot = kNoSlot;
  bool is_state_reserved = false;  // the slot was filled before the sequence runs
  SlotId matched_slot = kNoSlot;   // the snapshot of the prefix that was matched last
  // When it was last looked up while it waited: the free blocks that it needed, those of its prefix
  // included, and BlockManager::num_spared().
  std::int64_t num_free_needed = 0;
  std::int64_t num_spared = 0;
  std::int64_t num_known = 0;  // leading tokens that are in cached blocks, with states or not
  struct PendingSnapshot {
    std::int64_t num_tokens = 0;
    SlotId slot = kNoSlot;
  };
  std::vector<PendingSnapshot> pending_snapshots;  // of started steps, not in the cache yet
  std::uint64_t decode_snapshot = 0;  // prefix id of the last snapshot beyond the prompt; 0: none
  // Blocks below the KV cache, see tiers/sequence_tiers.h.
  struct Tier {
    std::vector<BlockKey> keys = {};  // the root key, then that of each full block
    std::uint64_t root_id = 0;        // BlockTable::root_id of the keys
    std::int64_t num_queued = 0;      // leading blocks that were queued for the tiers
    bool is_found = false;            // was looked up since it waits
    std::shared_ptr<TierLoad> load = {};
    // To put into the KV cache: blocks from `first_block` on, and the recurrent states after them.
    std::size_t first_block = 0;
    std::vector<TierEntryPtr> blocks = {};
    TierEntryPtr state = {};
    std::size_t num_filled = 0;  // leading ones of `blocks` that are in the cache
  };
  Tier tier;
  // LongRoPE: positions are rotated with the long factors (Blueprint::long_rope_from).
  bool uses_long_rope = false;
  SequenceState state = SequenceState::Waiting;

  std::unique_ptr<tokenizer::Detokenizer> detokenizer;  // null: token ids only
  std::optional<LineLimits> lines;                      // of its text; unset: none
  std::vector<TokenLogprobs> prompt_logprobs;           // starts at the second prompt token
  std::optional<grammar::OutputMatcher> matcher;        // of params.structured_output
  std::unique_ptr<Pooler> pooler;                       // of an embedding; null: generates tokens
  // Guesses the next tokens; null: does not.
  std::shared_ptr<SequenceSpeculation> speculation;

  TokenCounts counts;           // as of the last token that was sampled with penalties
  std::int64_t num_cached = 0;  // prompt tokens found in the prefix cache
  Clock::time_point arrived;
  std::optional<Clock::time_point> first_scheduled;
  std::optional<Clock::time_point> first_token;

  // Including those in flight.
  std::int64_t num_tokens() const {
    return static_cast<std::int64_t>(tokens.size()) + num_in_flight;
  }
  std::int64_t num_output() const { return num_tokens() - num_prompt; }
  std::int64_t num_known_output() const { return num_output() - num_in_flight; }
  // Tokens to compute before the next one can be sampled.
  std::int64_t num_pending() const { return num_tokens() - num_computed; }
  std::span<const TokenId> output() const {  // without tokens in flight
    return std::span(tokens).subspan(static_cast<std::size_t>(num_prompt));
  }
  bool is_embedding() const { return pooler != nullptr; }
  // Scheduling order: the lower rank runs first. Embeddings have no first token to wait for.
  auto rank() const { return std::tuple(is_embedding(), priority, arrival_order, id.sample); }
};

}  // namespace graft::engine
