#include "graft/engine/tiers/block_key.h"

#include <set>
#include <vector>

#include <gtest/gtest.h>

namespace graft::engine {
namespace {

const CacheIdentity kIdentity = {
    .model = "model", .cache_form = "f16 64+64", .block_tokens = 16, .salt = 7};

TEST(BlockKey, DependsOnEveryPartOfTheIdentity) {
  std::set<BlockKey> keys = {root_key(kIdentity)};
  const auto expect_new = [&](const CacheIdentity& identity) {
    EXPECT_TRUE(keys.insert(root_key(identity)).second);
  };
  CacheIdentity other = kIdentity;
  other.model = "mode";
  other.cache_form = "lf16 64+64";  // the same text without the boundary
  expect_new(other);
  other = kIdentity;
  other.cache_form = "q8_0 64+64";
  expect_new(other);
  other = kIdentity;
  other.block_tokens = 32;
  expect_new(other);
  other = kIdentity;
  other.salt = 8;
  expect_new(other);
  other = kIdentity;
  other.uses_long_rope = true;
  expect_new(other);
  EXPECT_EQ(root_key(kIdentity), root_key(CacheIdentity(kIdentity)));
}

TEST(BlockKey, IdentifiesTheWholePrefix) {
  const std::vector<TokenId> a = {1, 2, 3, 4};
  const std::vector<TokenId> b = {1, 2, 3, 5};
  const BlockKey root = root_key(kIdentity);
  EXPECT_EQ(child_key(root, a), child_key(root, a));
  EXPECT_NE(child_key(root, a), child_key(root, b));
  EXPECT_NE(child_key(child_key(root, a), b), child_key(child_key(root, b), b));
  // Parents that differ only in the half that is not the seed.
  EXPECT_NE(child_key({.high = 1, .low = 2}, a), child_key({.high = 3, .low = 2}, a));
  EXPECT_NE(state_key(root), root);
}

TEST(BlockKey, ReadsItsOwnHexOnly) {
  const BlockKey key = {.high = 0x0123456789abcdef, .low = 0xfedcba9876543210};
  EXPECT_EQ(to_hex(key), "0123456789abcdeffedcba9876543210");
  EXPECT_EQ(parse_block_key(to_hex(key)), key);
  EXPECT_FALSE(parse_block_key("0123456789ABCDEFFEDCBA9876543210"));
  EXPECT_FALSE(parse_block_key("0123"));
  EXPECT_FALSE(parse_block_key("0123456789abcdeffedcba987654321g"));
}

}  // namespace
}  // namespace graft::engine
