#include "graft/models/decode_graphs.h"

#include <set>

#include <gtest/gtest.h>

namespace graft::models {
namespace {

// A bucket is at least as large as its batch, and there are few buckets.
TEST(DecodeGraphCache, BatchBucketsFitAndAreFew) {
  std::set<std::int64_t> sizes;
  for (std::int64_t count = 1; count <= 256; ++count) {
    const std::int64_t size = batch_bucket(count);
    EXPECT_GE(size, count);
    EXPECT_EQ(batch_bucket(size), size);
    EXPECT_LT(size, count <= 8 ? count + 1 : 2 * count);
    sizes.insert(size);
  }
  EXPECT_LE(sizes.size(), 24U);
}

TEST(DecodeGraphCache, ContextsGrowByDoubling) {
  EXPECT_EQ(context_bucket(1), 256);
  EXPECT_EQ(context_bucket(256), 256);
  EXPECT_EQ(context_bucket(257), 512);
  EXPECT_EQ(context_bucket(40000), 65536);
}

TEST(DecodeGraphCache, CapturesOnlyOneTokenPerSequence) {
  ops::Batch batch;
  EXPECT_FALSE(DecodeGraphCache::fits(batch));
  batch.token_ids = {1, 2};
  batch.positions = {0, 7};
  batch.sequences.resize(2);
  batch.logit_rows = {0};
  EXPECT_FALSE(DecodeGraphCache::fits(batch));
  batch.logit_rows = {0, 1};
  EXPECT_TRUE(DecodeGraphCache::fits(batch));
  batch.sequences.resize(1);
  EXPECT_FALSE(DecodeGraphCache::fits(batch));
}

}  // namespace
}  // namespace graft::models
