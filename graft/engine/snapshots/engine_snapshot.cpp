// Engine::save and Engine::restore.

#include <algorithm>
#include <utility>

#include "graft/base/check.h"
#include "graft/base/error.h"
#include "graft/engine/engine.h"
#include "graft/engine/snapshots/output_text.h"
#include "graft/engine/snapshots/snapshot.h"
#include "graft/engine/tiers/cache_identity.h"

namespace graft::engine {

void Engine::save(SequenceId id, const std::filesystem::path& path) {
  settle();
  const auto found = sequences_.find(id);
  if (found == sequences_.end()) {
    throw UnknownSequence(
        str("request ", id.request, ", sample ", id.sample, ": not found, it may have finished"));
  }
  const Sequence& sequence = *found->second;
  if (sequence.is_embedding()) fail("request ", id.request, ": an embedding cannot be saved");
  const models::Model& model = open_.model();
  if (fingerprint_ == 0) fingerprint_ = fingerprint_of(open_.source());
  // Blocks from the tiers may be on their way to the device.
  if (!tier_copies_.empty()) open_.model().block_transfer().wait();
  Snapshot snapshot;
  snapshot.model = fingerprint_;
  snapshot.cache_form = model.cache_form();
  snapshot.block_tokens = blocks_.block_tokens();
  snapshot.block_bytes = model.cache_bytes_per_block();
  snapshot.params = sequence.params;
  snapshot.params.n = 1;  // saves this sequence, without the forks it has not made yet
  snapshot.seed = sequence.seed;
  snapshot.priority = sequence.priority;
  snapshot.cache_salt = sequence.table.root_id;
  snapshot.uses_long_rope = sequence.uses_long_rope;
  if (sequence.adapter != nullptr) {
    snapshot.adapter_name = sequence.adapter->info.source.name;
    snapshot.adapter = sequence.adapter->info.identity;
  }
  snapshot.num_prompt = sequence.num_prompt;
  snapshot.num_computed = sequence.num_computed;
  snapshot.tokens = sequence.tokens;
  snapshot.images = sequence.images;
  if (states_ != nullptr && snapshot.num_computed > 0) {
    snapshot.state.resize(model.state_bytes_per_slot());
    model.save_state(sequence.state_slot, snapshot.state);
  }
  snapshot.first_block = sequence.table.num_released;
  const std::int64_t num_blocks = blocks_.blocks_for(snapshot.num_computed) - snapshot.first_block;
  std::vector<std::byte> bytes(snapshot.block_bytes);
  write_snapshot(path, snapshot, num_blocks, [&](std::int64_t i) {
    const auto at = static_cast<std::size_t>(snapshot.first_block + i);
    model.save_block(sequence.table.blocks[at], bytes);
    return std::span<const std::byte>(bytes);
  });
}

// The tokens of a snapshot without the ids of images. Throws Error for images that the model cannot
// have.
std::vector<TokenId> Engine::tokens_to_check(const Snapshot& snapshot) const {
  std::vector<TokenId> tokens = snapshot.tokens;
  const ops::VisionTowerParams* tower = open_.model().vision_tower();
  std::int64_t after = 0;
  for (const SequenceImage& image : snapshot.images) {
    const bool fits = tower != nullptr && image.first >= after &&
                      image.image->tile_size == tower->image_size &&
                      image.count == models::num_image_tokens(*tower, *image.image) &&
                      image.end() <= snapshot.num_prompt;
    if (!fits) fail("damaged: an image does not fit into the prompt");
    std::fill_n(tokens.begin() + image.first, image.count, 0);
    after = image.end();
  }
  return tokens;
}

RequestId Engine::restore(const std::filesystem::path& path, RequestId id) {
  return restore(read_snapshot(path), path.string(), id);
}

void Engine::check_snapshot(const Snapshot& snapshot, const std::string& where) {
  if (fingerprint_ == 0) fingerprint_ = fingerprint_of(open_.source());
  if (snapshot.model != fingerprint_) fail(where, ": saved with another model");
  const models::Model& model = open_.model();
  const std::size_t state_bytes = snapshot.num_computed > 0 ? model.state_bytes_per_slot() : 0;
  if (snapshot.state.size() != state_bytes) {
    fail(where, ": damaged: recurrent states of ", snapshot.state.size(), " bytes, expected ",
         state_bytes);
  }
  if (snapshot.cache_form != model.cache_form()) {
    fail(where, ": saved with KV cache layout ", snapshot.cache_form, ", this model uses ",
         model.cache_form());
  }
  const std::size_t block_bytes = model.cache_bytes_per_block();
  if (snapshot.block_tokens == blocks_.block_tokens() && snapshot.block_bytes != block_bytes) {
    fail(where, ": damaged: blocks of ", snapshot.block_bytes, " bytes, expected ", block_bytes);
  }
  if (snapshot.uses_long_rope && model.long_rope_from() == 0)
    fail(where, ": damaged: the model has no long factors of RoPE");
  if (snapshot.first_block * snapshot.block_tokens >
      scheduler_.num_out_of_window(snapshot.num_computed)) {
    fail(where, ": damaged: begins with block ", snapshot.first_block, " of ",
         snapshot.num_computed, " tokens, of which attention reads more");
  }
  try {
    check({.prompt = tokens_to_check(snapshot), .params = snapshot.params});
  } catch (const Error& error) {
    fail(where, ": ", error.what());
  }
}

RequestId Engine::restore(Snapshot snapshot,
                          const std::string& where,
                          RequestId id,
                          std::uint64_t client) {
  check_snapshot(snapshot, where);
  auto sequence = std::make_shared<Sequence>();
  if (snapshot.adapter != 0) {
    sequence->adapter = adapters_.find(snapshot.adapter);
    if (sequence->adapter == nullptr) {
      fail(where, ": saved with the adapter '", snapshot.adapter_name,
           "', which is not loaded with these matrices and scale");
    }
  }
  sequence->id = {.request = new_id(id), .sample = 0};
  sequence->seed = snapshot.seed;
  sequence->client = share_of(client, sequence->adapter);
  sequence->priority = snapshot.priority;
  sequence->table = salted_table(snapshot.cache_salt);
  sequence->uses_long_rope = snapshot.uses_long_rope;
  sequence->num_prompt = snapshot.num_prompt;
  sequence->tokens = std::move(snapshot.tokens);
  set_images(std::move(snapshot.images), *sequence);
  sequence->params = std::move(snapshot.params);
  sequence->num_computed = snapshot.num_computed;
  sequence->matcher = new_matcher(sequence->params);
  for (const TokenId token : sequence->output()) {
    if (sequence->matcher && !sequence->matcher->accept(token))
      fail(where, ": damaged: its output does not match its structured output");
  }
  // The tokens are recomputed, with the same bits, when the block size differs, too few blocks are
  // free, too many slots of recurrent states are used, or prompt logprobs are still needed.
  const bool can_restore =
      snapshot.block_tokens == blocks_.block_tokens() &&
      blocks_.blocks_for(snapshot.num_computed) - snapshot.first_block <= blocks_.num_free() &&
      !(sequence->params.prompt_logprobs && sequence->num_output() == 0);
  if (can_restore && restore_state(*sequence, snapshot.state)) {
    restore_blocks(*sequence, snapshot);
  } else {
    sequence->num_computed = 0;
  }
  Sequence& added = add_sequence(std::move(sequence));
  // Text that was returned before the save is not repeated.
  if (added.detokenizer) {
    std::string text = replay_output(*added.detokenizer, added.params, added.output());
    if (added.lines) added.lines->cut(text, 0);
  }
  return added.id.request;
}

// False: too many slots are in use.
bool Engine::restore_state(Sequence& sequence, std::span<const std::byte> state) {
  if (states_ == nullptr || sequence.num_computed == 0) return true;
  const std::optional<SlotId> slot = states_->reserve();
  if (!slot) return false;
  sequence.state_slot = *slot;
  sequence.is_state_reserved = true;
  open_.model().load_state(*slot, state);
  return true;
}

void Engine::restore_blocks(Sequence& sequence, const Snapshot& snapshot) {
  std::vector<BlockCopy> copies;
  blocks_.skip(sequence.table, snapshot.first_block);
  const bool has_room = blocks_.prepare(
      sequence.table, snapshot.first_block * blocks_.block_tokens(), sequence.num_computed, copies);
  GRAFT_CHECK(has_room && copies.empty(), "too few free blocks for a restored sequence");
  const std::span<const BlockId> blocks =
      std::span(sequence.table.blocks).subspan(static_cast<std::size_t>(snapshot.first_block));
  const std::size_t block_bytes = open_.model().cache_bytes_per_block();
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const auto bytes = std::span(snapshot.blocks).subspan(i * block_bytes, block_bytes);
    open_.model().load_block(blocks[i], bytes);
  }
  blocks_.register_full(sequence.table, sequence.tokens, sequence.num_computed);
}

}  // namespace graft::engine
