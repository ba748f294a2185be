#include "graft/engine/block_manager.h"

#include <algorithm>
#include <utility>

#include <xxhash.h>

#include "graft/base/check.h"

namespace graft::engine {
namespace {

std::size_t as_index(std::int64_t value) {
  return static_cast<std::size_t>(value);
}

}  // namespace

BlockTable salted_table(std::uint64_t cache_salt) {
  if (cache_salt == 0) return {};
  // Prefix ids count up from 1 and never reach 2^63, so a root id never equals one.
  constexpr std::uint64_t kRootBit = 1ULL << 63U;
  const std::uint64_t root_id = cache_salt | kRootBit;
  return {.prefix_id = root_id, .root_id = root_id};
}

std::uint64_t BlockManager::default_hash(std::uint64_t parent_id, std::span<const TokenId> tokens) {
  return XXH3_64bits_withSeed(tokens.data(), tokens.size_bytes(), parent_id);
}

BlockManager::BlockManager(std::int64_t num_blocks,
                           std::int64_t block_tokens,
                           bool prefix_caching,
                           Hash hash)
    : block_tokens_(block_tokens), prefix_caching_(prefix_caching), hash_(std::move(hash)) {
  GRAFT_CHECK(num_blocks > 0 && block_tokens > 0, num_blocks, " blocks of ", block_tokens);
  blocks_.resize(static_cast<std::size_t>(num_blocks));
  for (BlockId id = 0; id < num_blocks; ++id)
    at(id).free_it = free_.insert(free_.end(), id);
}

// A prefix id identifies the tokens of a block and of all blocks before it, and is never reused.
// Comparing the parent's id and the tokens therefore compares the whole prefix, so hash collisions
// are harmless.
std::optional<BlockId> BlockManager::find(std::uint64_t parent_id,
                                          std::span<const TokenId> tokens) const {
  const auto found = by_hash_.find(hash_(parent_id, tokens));
  if (found == by_hash_.end()) return std::nullopt;
  const Block& block = blocks_[static_cast<std::size_t>(found->second)];
  const bool is_same = block.parent_id == parent_id && std::ranges::equal(block.tokens, tokens);
  return is_same ? std::optional(found->second) : std::nullopt;
}

std::int64_t BlockManager::match_prefix(BlockTable& table, std::span<const TokenId> tokens) {
  return match_prefix(table, tokens, {}).num_tokens;
}

StateMatch BlockManager::match_prefix(BlockTable& table,
                                      std::span<const TokenId> tokens,
                                      const std::function<bool(std::uint64_t)>& has_state) {
  if (!prefix_caching_) return {};
  GRAFT_CHECK(static_cast<std::int64_t>(table.blocks.size()) == table.num_registered,
              table.blocks.size(), " blocks, ", table.num_registered, " registered");
  const auto size = static_cast<std::size_t>(block_tokens_);
  const std::size_t first = table.blocks.size();
  std::vector<BlockId> known;
  std::size_t num_usable = 0;
  std::uint64_t prefix_id = table.prefix_id;
  for (std::size_t next = first; (next + 1) * size < tokens.size(); ++next) {
    const auto block = find(prefix_id, tokens.subspan(next * size, size));
    if (!block) break;
    prefix_id = at(*block).prefix_id;
    known.push_back(*block);
    if (!has_state || has_state(prefix_id)) num_usable = known.size();
  }
  for (const BlockId block : std::span(known).first(num_usable)) {
    if (ref_count(block) == 0) ++num_spared_;
    add_ref(block);
    table.blocks.push_back(block);
    table.prefix_id = at(block).prefix_id;
    table.prefix_ids.push_back(table.prefix_id);
    ++table.num_registered;
  }
  return {.num_tokens = static_cast<std::int64_t>(num_usable) * block_tokens_,
          .num_known = static_cast<std::int64_t>(first + known.size()) * block_tokens_};
}

bool BlockManager::prepare(BlockTable& table,
                           std::int64_t first,
                           std::int64_t end,
                           std::vector<BlockCopy>& copies) {
  const auto num_have = static_cast<std::int64_t>(table.blocks.size());
  const std::int64_t num_needed = std::max(num_have, blocks_for(end));
  const std::int64_t first_written = first / block_tokens_;
  std::int64_t num_shared = 0;
  for (std::int64_t i = first_written; i < num_have; ++i)
    num_shared += ref_count(table.blocks[static_cast<std::size_t>(i)]) > 1 ? 1 : 0;
  if (num_needed - num_have + num_shared > num_free()) return false;

  for (std::int64_t i = first_written; i < num_have; ++i) {
    BlockId& block = table.blocks[static_cast<std::size_t>(i)];
    if (ref_count(block) == 1) continue;
    const BlockId copy = allocate();
    copies.push_back({.from = block, .to = copy});
    release(block);
    block = copy;
  }
  for (std::int64_t i = num_have; i < num_needed; ++i)
    table.blocks.push_back(allocate());
  return true;
}

void BlockManager::register_full(BlockTable& table,
                                 std::span<const TokenId> tokens,
                                 std::int64_t end) {
  if (!prefix_caching_) return;
  const auto size = static_cast<std::size_t>(block_tokens_);
  for (; (table.num_registered + 1) * block_tokens_ <= end; ++table.num_registered) {
    const auto idx = static_cast<std::size_t>(table.num_registered);
    const auto tokens_in_block = tokens.subspan(idx * size, size);
    if (const auto same = find(table.prefix_id, tokens_in_block)) {
      // The same prefix is registered already: keep that entry and chain later blocks to it.
      table.prefix_id = at(*same).prefix_id;
      table.prefix_ids.push_back(table.prefix_id);
      continue;
    }
    Block& block = at(table.blocks[idx]);
    block.prefix_id = next_prefix_id_++;
    block.parent_id = table.prefix_id;
    block.hash = hash_(table.prefix_id, tokens_in_block);
    block.tokens.assign(tokens_in_block.begin(), tokens_in_block.end());
    ++num_spared_;
    // On a hash collision the older entry stays and this block is never matched.
    by_hash_.try_emplace(block.hash, table.blocks[idx]);
    table.prefix_id = block.prefix_id;
    table.prefix_ids.push_back(table.prefix_id);
  }
}

void BlockManager::trim(BlockTable& table, std::int64_t end) {
  while (static_cast<std::int64_t>(table.blocks.size()) > blocks_for(end)) {
    release(table.blocks.back());
    table.blocks.pop_back();
  }
}

void BlockManager::release_before(BlockTable& table, std::int64_t position) {
  std::int64_t end = position / block_tokens_;
  // A block of a token in flight is registered later.
  if (prefix_caching_) end = std::min(end, table.num_registered);
  for (; table.num_released < end; ++table.num_released, ++num_released_)
    release(table.blocks[static_cast<std::size_t>(table.num_released)]);
}

void BlockManager::skip(BlockTable& table, std::int64_t num_blocks) {
  GRAFT_CHECK(table.blocks.empty(), "skipping blocks of a table with ", table.blocks.size());
  table.blocks.assign(static_cast<std::size_t>(num_blocks), 0);
  table.num_released = num_blocks;
  if (!prefix_caching_) return;
  for (; table.num_registered < num_blocks; ++table.num_registered)
    table.prefix_ids.push_back(table.prefix_id = next_prefix_id_++);
}

BlockTable BlockManager::fork(const BlockTable& table) {
  for (const BlockId block : std::span(table.blocks).subspan(as_index(table.num_released)))
    add_ref(block);
  return table;
}

void BlockManager::free(BlockTable& table) {
  // Last block first, so that the tail of a prefix is evicted before its beginning.
  while (table.num_held() > 0) {
    release(table.blocks.back());
    table.blocks.pop_back();
  }
  // Likewise those released before, which would be evicted first.
  for (std::size_t i = std::min(table.blocks.size(), table.prefix_ids.size()); i-- > 0;) {
    const Block& block = at(table.blocks[i]);
    if (block.prefix_id != table.prefix_ids[i] || block.ref_count > 0) continue;
    if (is_cached(table.blocks[i])) free_.splice(free_.end(), free_, block.free_it);
  }
  table = {.prefix_id = table.root_id, .root_id = table.root_id};
}

BlockId BlockManager::allocate() {
  GRAFT_CHECK(!free_.empty(), "no free block");
  const BlockId id = free_.front();
  unregister(at(id));
  add_ref(id);
  return id;
}

void BlockManager::add_ref(BlockId id) {
  Block& block = at(id);
  if (block.ref_count++ == 0) free_.erase(block.free_it);
}

void BlockManager::release(BlockId id) {
  Block& block = at(id);
  GRAFT_CHECK(block.ref_count > 0, "block ", id, " is freed twice");
  if (--block.ref_count > 0) return;
  block.free_it = free_.insert(is_cached(id) ? free_.end() : free_.begin(), id);
}

bool BlockManager::is_cached(BlockId id) const {
  const Block& block = blocks_[as_index(id)];
  if (block.prefix_id == 0) return false;
  const auto found = by_hash_.find(block.hash);
  return found != by_hash_.end() && found->second == id;
}

void BlockManager::unregister(Block& block) {
  if (block.prefix_id == 0) return;
  const auto found = by_hash_.find(block.hash);
  if (found != by_hash_.end() && &at(found->second) == &block) by_hash_.erase(found);
  if (on_unregister_) on_unregister_(block.prefix_id);
  block.prefix_id = 0;
  block.tokens.clear();
}

void BlockManager::invalidate_prefix_cache() {
  for (Block& block : blocks_)
    unregister(block);
}

std::vector<BlockId> BlockManager::evict_free() {
  for (const BlockId id : free_)
    unregister(at(id));
  std::vector<BlockId> ids(free_.begin(), free_.end());
  std::ranges::sort(ids);
  // Allocate low ids first from now on, so that the resident memory grows from one end.
  free_.clear();
  for (const BlockId id : ids)
    at(id).free_it = free_.insert(free_.end(), id);
  return ids;
}

BlockStats BlockManager::stats() const {
  BlockStats stats;
  stats.num_blocks = num_blocks();
  stats.num_used = num_blocks() - num_free();
  stats.num_cached = std::ranges::count_if(
      free_, [&](BlockId id) { return blocks_[static_cast<std::size_t>(id)].prefix_id != 0; });
  return stats;
}

std::int64_t BlockManager::ref_count(BlockId block) const {
  return blocks_[static_cast<std::size_t>(block)].ref_count;
}

}  // namespace graft::engine
