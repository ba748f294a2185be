// Which block of the KV cache belongs to whom. Blocks hold a fixed number of tokens; full ones are
// remembered by their content (the tokens and all that came before them), so that another sequence
// with the same beginning shares them. Blocks that nobody uses stay remembered until they are
// needed: the least recently used goes first.
//
// Knows nothing of memory or models: ids and counts only.

#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "graft/tokenizer/tokenizer.h"

namespace graft::engine {

using tokenizer::TokenId;
using BlockId = std::int32_t;

// The blocks of one sequence, in order. Made and changed by the manager only.
struct BlockTable {
  std::vector<BlockId> blocks = {};
  std::int64_t num_known = 0;  // of them, leading ones whose content is registered
  std::uint64_t content = 0;   // that of the last known block, `root` before the first
  std::uint64_t root = 0;      // tables of different roots share nothing
};

// An empty table whose blocks are shared only with tables of the same salt; 0: with those that have
// none.
BlockTable salted_table(std::uint64_t cache_salt);

// Block `to` must get the content of `from` before anything is written in this step.
struct BlockCopy {
  BlockId from = 0;
  BlockId to = 0;
};

struct BlockStats {
  std::int64_t num_blocks = 0;
  std::int64_t num_used = 0;    // by a sequence
  std::int64_t num_cached = 0;  // free, but remembered
};

class BlockManager {
 public:
  // Of the parent's content and the block's tokens; tests give a bad one to provoke collisions.
  using Hash = std::function<std::uint64_t(std::uint64_t parent, std::span<const TokenId> tokens)>;

  BlockManager(std::int64_t num_blocks,
               std::int64_t block_tokens,
               bool prefix_caching = true,
               Hash hash = default_hash);

  // Adds to the table the known blocks that continue it with these tokens (the whole sequence from
  // its beginning), never the one that holds the last token: that has to be computed to go on.
  // All blocks of the table must be full and known. Returns the tokens gained.
  std::int64_t match_prefix(BlockTable& table, std::span<const TokenId> tokens);

  // Makes positions [first, end) writable: takes new blocks, and replaces a shared block by a copy
  // (appended to `copies`). False, with nothing changed, when too few blocks are free.
  bool prepare(BlockTable& table,
               std::int64_t first,
               std::int64_t end,
               std::vector<BlockCopy>& copies);

  // Positions [0, end) of the sequence are written by the end of this step: its full blocks become
  // known.
  void register_full(BlockTable& table, std::span<const TokenId> tokens, std::int64_t end);

  // Another sequence with the same content.
  BlockTable fork(const BlockTable& table);
  void free(BlockTable& table);

  // Forgets the content of all blocks, used or not (when a step failed half-way).
  void invalidate_prefix_cache();
  // Forgets the free blocks and lists them: their memory may go.
  std::vector<BlockId> forget_free();

  std::int64_t num_free() const { return static_cast<std::int64_t>(free_.size()); }
  std::int64_t num_blocks() const { return static_cast<std::int64_t>(blocks_.size()); }
  std::int64_t block_tokens() const { return block_tokens_; }
  std::int64_t blocks_for(std::int64_t num_tokens) const {
    return (num_tokens + block_tokens_ - 1) / block_tokens_;
  }
  BlockStats stats() const;
  // Counts for tests and checks: how many sequences hold the block.
  std::int64_t num_holders(BlockId block) const;

  static std::uint64_t default_hash(std::uint64_t parent, std::span<const TokenId> tokens);

 private:
  struct Block {
    std::int32_t num_holders = 0;
    std::uint64_t content = 0;  // 0: not known
    std::uint64_t parent = 0;   // content of the block before it
    std::uint64_t hash = 0;
    std::vector<TokenId> tokens;
    std::list<BlockId>::iterator place;  // in free_, when nobody holds it
  };

  Block& at(BlockId id) { return blocks_[static_cast<std::size_t>(id)]; }
  std::optional<BlockId> find(std::uint64_t parent, std::span<const TokenId> tokens) const;
  BlockId take_free();
  void hold(BlockId id);
  void let_go(BlockId id);
  void forget(Block& block);

  std::int64_t block_tokens_;
  bool prefix_caching_;
  Hash hash_;
  std::vector<Block> blocks_;
  std::list<BlockId> free_;  // the next to be reused first
  std::unordered_map<std::uint64_t, BlockId> by_hash_;
  std::uint64_t next_content_ = 1;
};

}  // namespace graft::engine
