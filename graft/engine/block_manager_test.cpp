#include "graft/engine/block_manager.h"

#include <algorithm>
#include <numeric>
#include <random>

#include <gtest/gtest.h>

namespace graft::engine {
namespace {

using Tokens = std::vector<TokenId>;

Tokens count_up(TokenId first, std::int64_t count) {
  Tokens tokens(static_cast<std::size_t>(count));
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

// Computes a whole sequence: matches the prefix cache, allocates the rest, registers full blocks.
BlockTable compute(BlockManager& blocks, const Tokens& tokens) {
  BlockTable table;
  std::vector<BlockCopy> copies;
  const std::int64_t cached = blocks.match_prefix(table, tokens);
  const auto end = static_cast<std::int64_t>(tokens.size());
  EXPECT_TRUE(blocks.prepare(table, cached, end, copies));
  EXPECT_TRUE(copies.empty());
  blocks.register_full(table, tokens, end);
  return table;
}

TEST(BlockManager, SharesFullPrefixBlocks) {
  BlockManager blocks(10, 4);
  BlockTable first = compute(blocks, count_up(0, 10));
  EXPECT_EQ(first.blocks.size(), 3U);
  EXPECT_EQ(blocks.num_free(), 7);
  Tokens other = count_up(0, 9);
  other.push_back(99);
  BlockTable second = compute(blocks, other);
  EXPECT_EQ(second.blocks[0], first.blocks[0]);
  EXPECT_EQ(second.blocks[1], first.blocks[1]);
  EXPECT_NE(second.blocks[2], first.blocks[2]);
  EXPECT_EQ(blocks.ref_count(first.blocks[0]), 2);
  EXPECT_EQ(blocks.num_free(), 6);
  blocks.free(first);
  EXPECT_EQ(blocks.num_free(), 7);
  blocks.free(second);
  EXPECT_EQ(blocks.num_free(), 10);
  EXPECT_EQ(blocks.stats().num_cached, 2);
}

TEST(BlockManager, TrimFreesTheBlocksAfterAPosition) {
  BlockManager blocks(10, 4);
  BlockTable table = compute(blocks, count_up(0, 10));
  std::vector<BlockCopy> copies;
  ASSERT_TRUE(blocks.prepare(table, 10, 21, copies));
  EXPECT_EQ(blocks.num_free(), 4);
  blocks.trim(table, 13);
  EXPECT_EQ(table.blocks.size(), 4U);
  blocks.trim(table, 12);
  EXPECT_EQ(table.blocks.size(), 3U);
  blocks.trim(table, 12);
  EXPECT_EQ(table.blocks.size(), 3U);
  EXPECT_EQ(blocks.num_free(), 7);
  EXPECT_EQ(table.num_registered, 2);
  blocks.free(table);
  EXPECT_EQ(blocks.num_free(), 10);
}

TEST(BlockManager, SharesOnlyWithinOneSalt) {
  BlockManager blocks(20, 4);
  const Tokens tokens = count_up(0, 10);
  const auto computed = [&](std::uint64_t salt) {
    BlockTable table = salted_table(salt);
    std::vector<BlockCopy> copies;
    const std::int64_t cached = blocks.match_prefix(table, tokens);
    EXPECT_TRUE(blocks.prepare(table, cached, 10, copies));
    blocks.register_full(table, tokens, 10);
    blocks.free(table);
    EXPECT_EQ(table.prefix_id, salted_table(salt).prefix_id)
        << "a preempted sequence keeps its salt";
    return cached;
  };
  for (const std::uint64_t salt : {0ULL, 1ULL, 2ULL, ~0ULL}) {
    EXPECT_EQ(computed(salt), 0) << salt;
    EXPECT_EQ(computed(salt), 8) << salt;
  }
}

TEST(BlockManager, HitExcludesLastToken) {
  BlockManager blocks(10, 4);
  BlockTable first = compute(blocks, count_up(0, 8));
  BlockTable same;
  EXPECT_EQ(blocks.match_prefix(same, count_up(0, 8)), 4);
  BlockTable longer;
  EXPECT_EQ(blocks.match_prefix(longer, count_up(0, 9)), 8);
  for (BlockTable* table : {&first, &same, &longer})
    blocks.free(*table);
}

TEST(BlockManager, SameTokensAtOtherPositionsDoNotMatch) {
  BlockManager blocks(10, 2);
  BlockTable first = compute(blocks, {1, 2, 3, 4, 5});
  BlockTable other;
  EXPECT_EQ(blocks.match_prefix(other, Tokens{3, 4, 5, 6}), 0);
  EXPECT_EQ(blocks.match_prefix(other, Tokens{9, 9, 3, 4, 5}), 0);
  blocks.free(first);
}

TEST(BlockManager, EvictsLeastRecentlyUsedAndTailsFirst) {
  BlockManager blocks(4, 2);
  BlockTable old = compute(blocks, {1, 2, 3, 4});
  BlockTable young = compute(blocks, {5, 6, 7, 8});
  blocks.free(old);
  blocks.free(young);
  EXPECT_EQ(blocks.stats().num_cached, 4);
  // Allocating one block evicts the tail of the older sequence.
  BlockTable one = compute(blocks, {9, 9});
  BlockTable table;
  EXPECT_EQ(blocks.match_prefix(table, Tokens{1, 2, 3, 4, 5}), 2);
  blocks.free(table);
  EXPECT_EQ(blocks.match_prefix(table, Tokens{5, 6, 7, 8, 1}), 4);
  blocks.free(table);
  blocks.free(one);
}

TEST(BlockManager, HashCollisionsAreResolvedByTokens) {
  BlockManager blocks(10, 2, true, [](std::uint64_t, std::span<const TokenId>) { return 7U; });
  BlockTable first = compute(blocks, {1, 2, 3, 4});
  BlockTable second = compute(blocks, {5, 6, 7, 8});
  BlockTable table;
  EXPECT_EQ(blocks.match_prefix(table, Tokens{5, 6, 9}), 0);
  EXPECT_EQ(blocks.match_prefix(table, Tokens{3, 4, 9}), 0);
  EXPECT_EQ(blocks.match_prefix(table, Tokens{1, 2, 9}), 2);
  for (BlockTable* each : {&first, &second, &table})
    blocks.free(*each);
  EXPECT_EQ(blocks.num_free(), 10);
}

TEST(BlockManager, ForksCopyOnWrite) {
  BlockManager blocks(6, 4);
  BlockTable parent = compute(blocks, count_up(0, 6));
  BlockTable child = blocks.fork(parent);
  EXPECT_EQ(blocks.num_free(), 4);
  std::vector<BlockCopy> copies;
  ASSERT_TRUE(blocks.prepare(child, 6, 7, copies));
  ASSERT_EQ(copies.size(), 1U);
  EXPECT_EQ(copies[0].from, parent.blocks[1]);
  EXPECT_EQ(copies[0].to, child.blocks[1]);
  EXPECT_EQ(child.blocks[0], parent.blocks[0]);
  // The parent's block is no longer shared.
  copies.clear();
  ASSERT_TRUE(blocks.prepare(parent, 6, 7, copies));
  EXPECT_TRUE(copies.empty());
  blocks.free(parent);
  blocks.free(child);
  EXPECT_EQ(blocks.num_free(), 6);
}

TEST(BlockManager, PrepareChangesNothingWhenOutOfBlocks) {
  BlockManager blocks(2, 4);
  BlockTable table;
  std::vector<BlockCopy> copies;
  EXPECT_FALSE(blocks.prepare(table, 0, 9, copies));
  EXPECT_TRUE(table.blocks.empty());
  EXPECT_TRUE(blocks.prepare(table, 0, 8, copies));
  BlockTable fork = blocks.fork(table);
  EXPECT_FALSE(blocks.prepare(fork, 7, 8, copies));
  EXPECT_EQ(fork.blocks, table.blocks);
  blocks.free(fork);
  blocks.free(table);
}

TEST(BlockManager, EvictsFreeBlocksAndInvalidatesAll) {
  BlockManager blocks(8, 2);
  BlockTable used = compute(blocks, {1, 2, 3});
  BlockTable freed = compute(blocks, {7, 8, 9});
  blocks.free(freed);
  const std::vector<BlockId> released = blocks.evict_free();
  EXPECT_EQ(released.size(), 6U);
  EXPECT_TRUE(std::ranges::is_sorted(released));
  BlockTable table;
  EXPECT_EQ(blocks.match_prefix(table, Tokens{7, 8, 9}), 0);
  EXPECT_EQ(blocks.match_prefix(table, Tokens{1, 2, 3}), 2);
  blocks.free(table);
  blocks.invalidate_prefix_cache();
  EXPECT_EQ(blocks.match_prefix(table, Tokens{1, 2, 3}), 0);
  blocks.free(used);
  EXPECT_EQ(blocks.num_free(), 8);
}

TEST(BlockManager, SharesNothingWithoutPrefixCaching) {
  BlockManager blocks(8, 2, false);
  BlockTable first = compute(blocks, {1, 2, 3, 4});
  BlockTable second = compute(blocks, {1, 2, 3, 4});
  EXPECT_NE(first.blocks[0], second.blocks[0]);
  blocks.free(first);
  blocks.free(second);
}

TEST(BlockManager, DetectsDoubleFree) {
  BlockManager blocks(4, 2);
  BlockTable table = compute(blocks, {1, 2, 3});
  BlockTable stale = table;
  blocks.free(table);
  EXPECT_DEATH(blocks.free(stale), "freed twice");
}

}  // namespace
}  // namespace graft::engine
