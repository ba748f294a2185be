#include "graft/engine/tiers/host_tier.h"

#include <memory>
#include <vector>

#include <gtest/gtest.h>

namespace graft::engine {
namespace {

constexpr std::size_t kBytes = 1000;

TierEntryPtr host_entry(TokenId token, std::size_t num_bytes = kBytes) {
  const std::vector<TokenId> tokens = {token, token + 1};
  const BlockKey parent = {.high = 1, .low = 2};
  return std::make_shared<TierEntry>(
      TierEntry{.key = child_key(parent, tokens),
                .parent = parent,
                .tokens = tokens,
                .bytes = EntryBytes::copy_of(std::vector<std::byte>(num_bytes, std::byte(token)))});
}

TierQuery host_query(const TierEntry& entry) {
  return {.key = entry.key,
          .parent = entry.parent,
          .tokens = entry.tokens,
          .num_bytes = entry.bytes.size()};
}

TEST(HostTier, EvictsTheLeastRecentlyUsedEntry) {
  HostTier tier(3500);  // three entries and their headers
  for (const TokenId token : {1, 2, 3})
    tier.store(host_entry(token));
  EXPECT_EQ(tier.find(host_query(*host_entry(1)))->bytes, host_entry(1)->bytes);
  tier.store(host_entry(4));
  EXPECT_FALSE(tier.contains(host_entry(2)->key));
  for (const TokenId token : {1, 3, 4})
    EXPECT_TRUE(tier.contains(host_entry(token)->key)) << token;
  const TierStats stats = tier.stats();
  EXPECT_EQ(stats.num_blocks, 3);
  EXPECT_EQ(stats.num_evictions, 1);
  EXPECT_EQ(stats.num_stores, 4);
  EXPECT_LE(stats.bytes, 3500U);
  EXPECT_GT(stats.bytes, 3 * kBytes);
  EXPECT_EQ(stats.capacity, 3500U);
}

TEST(HostTier, ComparesTokensParentAndSize) {
  HostTier tier(100000);
  const TierEntryPtr entry = host_entry(5);
  tier.store(entry);
  TierQuery query = host_query(*entry);
  EXPECT_NE(tier.find(query), nullptr);
  query.parent.low ^= 1;
  EXPECT_EQ(tier.find(query), nullptr);
  query = host_query(*entry);
  query.num_bytes += 1;
  EXPECT_EQ(tier.find(query), nullptr);
  const std::vector<TokenId> others = {5, 7};
  query = host_query(*entry);
  query.tokens = others;
  EXPECT_EQ(tier.find(query), nullptr);
  EXPECT_EQ(tier.stats().num_hits, 1);
  EXPECT_EQ(tier.stats().num_misses, 3);
}

TEST(HostTier, IgnoresWhatItHasAndWhatIsTooLarge) {
  HostTier tier(5000);
  tier.store(host_entry(1));
  tier.store(host_entry(1));
  tier.store(host_entry(2, 5000));
  EXPECT_EQ(tier.stats().num_blocks, 1);
  EXPECT_EQ(tier.stats().num_stores, 1);
}

}  // namespace
}  // namespace graft::engine
