#include "graft/engine/block_manager.h"

#include <algorithm>
#include <utility>

#include <xxhash.h>

#include "graft/base/check.h"

namespace graft::engine {

BlockTable salted_table(std::uint64_t cache_salt) {
  if (cache_salt == 0) return {};
  // Contents are counted from 1 and never get there: no salt is the content of a block.
  constexpr std::uint64_t kNoContent = 1ULL << 63U;
  const std::uint64_t root = cache_salt | kNoContent;
  return {.content = root, .root = root};
}

std::uint64_t BlockManager::default_hash(std::uint64_t parent, std::span<const TokenId> tokens) {
  return XXH3_64bits_withSeed(tokens.data(), tokens.size_bytes(), parent);
}

BlockManager::BlockManager(std::int64_t num_blocks,
                           std::int64_t block_tokens,
                           bool prefix_caching,
                           Hash hash)
    : block_tokens_(block_tokens), prefix_caching_(prefix_caching), hash_(std::move(hash)) {
  GRAFT_CHECK(num_blocks > 0 && block_tokens > 0, num_blocks, " blocks of ", block_tokens);
  blocks_.resize(static_cast<std::size_t>(num_blocks));
  for (BlockId id = 0; id < num_blocks; ++id)
    at(id).place = free_.insert(free_.end(), id);
}

// A content number stands for the tokens of a block and of all before it, and is never given twice:
// comparing the parent's number and the tokens therefore compares the whole prefix, whatever the
// hash.
std::optional<BlockId> BlockManager::find(std::uint64_t parent,
                                          std::span<const TokenId> tokens) const {
  const auto found = by_hash_.find(hash_(parent, tokens));
  if (found == by_hash_.end()) return std::nullopt;
  const Block& block = blocks_[static_cast<std::size_t>(found->second)];
  const bool is_same = block.parent == parent && std::ranges::equal(block.tokens, tokens);
  return is_same ? std::optional(found->second) : std::nullopt;
}

std::int64_t BlockManager::match_prefix(BlockTable& table, std::span<const TokenId> tokens) {
  if (!prefix_caching_) return 0;
  GRAFT_CHECK(static_cast<std::int64_t>(table.blocks.size()) == table.num_known,
              table.blocks.size(), " blocks, ", table.num_known, " known");
  const auto size = static_cast<std::size_t>(block_tokens_);
  const std::size_t first = table.blocks.size();
  std::size_t next = first;
  for (; (next + 1) * size < tokens.size(); ++next) {
    const auto block = find(table.content, tokens.subspan(next * size, size));
    if (!block) break;
    hold(*block);
    table.blocks.push_back(*block);
    table.content = at(*block).content;
    ++table.num_known;
  }
  return static_cast<std::int64_t>(next - first) * block_tokens_;
}

bool BlockManager::prepare(BlockTable& table,
                           std::int64_t first,
                           std::int64_t end,
                           std::vector<BlockCopy>& copies) {
  const auto num_have = static_cast<std::int64_t>(table.blocks.size());
  const std::int64_t num_want = std::max(num_have, blocks_for(end));
  const std::int64_t first_written = first / block_tokens_;
  std::int64_t num_shared = 0;
  for (std::int64_t i = first_written; i < num_have; ++i)
    num_shared += num_holders(table.blocks[static_cast<std::size_t>(i)]) > 1 ? 1 : 0;
  if (num_want - num_have + num_shared > num_free()) return false;

  for (std::int64_t i = first_written; i < num_have; ++i) {
    BlockId& block = table.blocks[static_cast<std::size_t>(i)];
    if (num_holders(block) == 1) continue;
    const BlockId own = take_free();
    copies.push_back({.from = block, .to = own});
    let_go(block);
    block = own;
  }
  for (std::int64_t i = num_have; i < num_want; ++i)
    table.blocks.push_back(take_free());
  return true;
}

void BlockManager::register_full(BlockTable& table,
                                 std::span<const TokenId> tokens,
                                 std::int64_t end) {
  if (!prefix_caching_) return;
  const auto size = static_cast<std::size_t>(block_tokens_);
  for (; (table.num_known + 1) * block_tokens_ <= end; ++table.num_known) {
    const auto idx = static_cast<std::size_t>(table.num_known);
    const auto content_tokens = tokens.subspan(idx * size, size);
    if (const auto same = find(table.content, content_tokens)) {
      // Computed twice; the other one stays the known one, and what follows continues it.
      table.content = at(*same).content;
      continue;
    }
    Block& block = at(table.blocks[idx]);
    block.content = next_content_++;
    block.parent = table.content;
    block.hash = hash_(table.content, content_tokens);
    block.tokens.assign(content_tokens.begin(), content_tokens.end());
    // Another content with this hash keeps its place; this block is then just not found.
    by_hash_.try_emplace(block.hash, table.blocks[idx]);
    table.content = block.content;
  }
}

BlockTable BlockManager::fork(const BlockTable& table) {
  for (const BlockId block : table.blocks)
    hold(block);
  return table;
}

void BlockManager::free(BlockTable& table) {
  // The end first: a prefix is worth more than what follows it.
  std::ranges::reverse(table.blocks);
  for (const BlockId block : table.blocks)
    let_go(block);
  table = {.content = table.root, .root = table.root};
}

BlockId BlockManager::take_free() {
  GRAFT_CHECK(!free_.empty(), "no free block");
  const BlockId id = free_.front();
  forget(at(id));
  hold(id);
  return id;
}

void BlockManager::hold(BlockId id) {
  Block& block = at(id);
  if (block.num_holders++ == 0) free_.erase(block.place);
}

void BlockManager::let_go(BlockId id) {
  Block& block = at(id);
  GRAFT_CHECK(block.num_holders > 0, "block ", id, " is freed twice");
  if (--block.num_holders > 0) return;
  const bool is_found =
      block.content != 0 && by_hash_.contains(block.hash) && by_hash_.at(block.hash) == id;
  block.place = free_.insert(is_found ? free_.end() : free_.begin(), id);
}

void BlockManager::forget(Block& block) {
  if (block.content == 0) return;
  const auto found = by_hash_.find(block.hash);
  if (found != by_hash_.end() && &at(found->second) == &block) by_hash_.erase(found);
  block.content = 0;
  block.tokens.clear();
}

void BlockManager::invalidate_prefix_cache() {
  for (Block& block : blocks_)
    forget(block);
}

std::vector<BlockId> BlockManager::forget_free() {
  for (const BlockId id : free_)
    forget(at(id));
  std::vector<BlockId> ids(free_.begin(), free_.end());
  std::ranges::sort(ids);
  // Low ids first from now on, so that memory grows from one end again.
  free_.clear();
  for (const BlockId id : ids)
    at(id).place = free_.insert(free_.end(), id);
  return ids;
}

BlockStats BlockManager::stats() const {
  BlockStats stats;
  stats.num_blocks = num_blocks();
  stats.num_used = num_blocks() - num_free();
  stats.num_cached = std::ranges::count_if(
      free_, [&](BlockId id) { return blocks_[static_cast<std::size_t>(id)].content != 0; });
  return stats;
}

std::int64_t BlockManager::num_holders(BlockId block) const {
  return blocks_[static_cast<std::size_t>(block)].num_holders;
}

}  // namespace graft::engine
