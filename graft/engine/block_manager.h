// Allocates the blocks of the paged KV cache and keeps the prefix cache. A block holds a fixed
// number of tokens. Full blocks are registered under their prefix (all tokens up to the end of the
// block), so sequences with the same prefix share them. Freed blocks stay cached until they are
// reallocated, least recently used first.
//
// Works on ids and reference counts only; the model owns the memory.

#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "graft/llm.h"

namespace graft::engine {

using graft::BlockStats;
using graft::TokenId;
using BlockId = std::int32_t;

// The blocks of one sequence, in order. Only BlockManager changes it.
struct BlockTable {
  std::vector<BlockId> blocks = {};
  std::int64_t num_registered = 0;  // leading blocks that are registered in the prefix cache
  std::uint64_t prefix_id = 0;      // of the last registered block; `root_id` before the first
  std::uint64_t root_id = 0;        // tables with different roots never share blocks
  std::vector<std::uint64_t> prefix_ids = {};  // of the registered blocks, in order
  // Leading blocks that attention no longer reads: the table does not hold them any more, and
  // others may have overwritten them.
  std::int64_t num_released = 0;

  std::int64_t num_held() const { return static_cast<std::int64_t>(blocks.size()) - num_released; }
};

// An empty table that shares blocks only with tables of the same salt; 0: no salt.
BlockTable salted_table(std::uint64_t cache_salt);

// Copy-on-write: block `from` must be copied to `to` before the step writes to the cache.
struct BlockCopy {
  BlockId from = 0;
  BlockId to = 0;
};

// A match of a sequence whose model has recurrent states.
struct StateMatch {
  std::int64_t num_tokens = 0;  // hit, up to a prefix with a snapshot
  std::int64_t num_known = 0;   // in cached blocks from the start of the sequence on
};

class BlockManager {
 public:
  // Hashes the parent's prefix id and the block's tokens. Tests pass a constant hash to provoke
  // collisions.
  using Hash =
      std::function<std::uint64_t(std::uint64_t parent_id, std::span<const TokenId> tokens)>;

  BlockManager(std::int64_t num_blocks,
               std::int64_t block_tokens,
               bool prefix_caching = true,
               Hash hash = default_hash);

  // Appends the cached blocks that match `tokens` (the whole sequence, prompt first) beyond the
  // blocks already in the table. Never the block of the last token: its logits must be computed.
  // All blocks of the table must be full and registered. Returns the number of tokens hit.
  std::int64_t match_prefix(BlockTable& table, std::span<const TokenId> tokens);

  // The same up to the last prefix for which has_state(prefix id) is true.
  StateMatch match_prefix(BlockTable& table,
                          std::span<const TokenId> tokens,
                          const std::function<bool(std::uint64_t)>& has_state);

  // Called with the prefix id of every block that leaves the prefix cache.
  void on_unregister(std::function<void(std::uint64_t)> function) {
    on_unregister_ = std::move(function);
  }

  // Makes positions [first, end) writable: allocates new blocks, and replaces a shared block by a
  // copy (appended to `copies`). Returns false and changes nothing when too few blocks are free.
  bool prepare(BlockTable& table,
               std::int64_t first,
               std::int64_t end,
               std::vector<BlockCopy>& copies);

  // Registers the full blocks among positions [0, end), which are written by the end of this step.
  void register_full(BlockTable& table, std::span<const TokenId> tokens, std::int64_t end);

  // Frees the blocks after those of positions [0, end), which hold nothing that is registered.
  void trim(BlockTable& table, std::int64_t end);

  // Frees the blocks before position `position`, which attention no longer reads: full ones that
  // are registered where the prefix cache is on. They stay cached as other free blocks do.
  void release_before(BlockTable& table, std::int64_t position);
  // An empty table begins with this many blocks that were released before it was saved. Sequences
  // never share what follows.
  void skip(BlockTable& table, std::int64_t num_blocks);

  // A second table that shares all blocks with `table`.
  BlockTable fork(const BlockTable& table);
  void free(BlockTable& table);

  // Unregisters all blocks, used or free. Needed after a step that failed before it wrote them.
  void invalidate_prefix_cache();
  // Evicts all cached free blocks. Returns the ids of all free blocks, ascending, so that the
  // caller can release their memory.
  std::vector<BlockId> evict_free();

  std::int64_t num_free() const { return static_cast<std::int64_t>(free_.size()); }
  std::int64_t num_blocks() const { return static_cast<std::int64_t>(blocks_.size()); }
  std::int64_t block_tokens() const { return block_tokens_; }
  std::int64_t blocks_for(std::int64_t num_tokens) const {
    return (num_tokens + block_tokens_ - 1) / block_tokens_;
  }
  BlockStats stats() const;
  std::int64_t num_released() const { return num_released_; }  // by release_before()
  // Blocks that were registered, and free ones that were matched, since the start: each can have
  // spared a waiting sequence one free block.
  std::int64_t num_spared() const { return num_spared_; }
  std::int64_t ref_count(BlockId block) const;
  // 0: not registered.
  std::uint64_t prefix_id(BlockId block) const {
    return blocks_[static_cast<std::size_t>(block)].prefix_id;
  }

  static std::uint64_t default_hash(std::uint64_t parent_id, std::span<const TokenId> tokens);

 private:
  struct Block {
    std::int32_t ref_count = 0;
    std::uint64_t prefix_id = 0;  // 0: not registered
    std::uint64_t parent_id = 0;  // prefix id of the block before it
    std::uint64_t hash = 0;
    std::vector<TokenId> tokens;
    std::list<BlockId>::iterator free_it;  // position in free_ while ref_count is 0
  };

  Block& at(BlockId id) { return blocks_[static_cast<std::size_t>(id)]; }
  std::optional<BlockId> find(std::uint64_t parent_id, std::span<const TokenId> tokens) const;
  BlockId allocate();
  void add_ref(BlockId id);
  void release(BlockId id);
  bool is_cached(BlockId id) const;
  void unregister(Block& block);

  std::int64_t block_tokens_;
  bool prefix_caching_;
  Hash hash_;
  std::function<void(std::uint64_t)> on_unregister_ = {};
  std::vector<Block> blocks_;
  std::list<BlockId> free_;  // allocated from the front
  std::unordered_map<std::uint64_t, BlockId> by_hash_;
  std::uint64_t next_prefix_id_ = 1;
  std::int64_t num_released_ = 0;
  std::int64_t num_spared_ = 0;
};

}  // namespace graft::engine
