#include "graft/engine/tiers/kv_tiers.h"

#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "graft/base/system/temp_dir.h"

namespace graft::engine {
namespace {

using std::chrono::milliseconds;

constexpr std::uint64_t kRoom = 1U << 30U;
constexpr std::size_t kEntryBytes = 20000;

// Block i of a chain, with contents that depend on i.
TierEntryPtr chain_entry(int i) {
  BlockKey parent = {.high = 5, .low = 6};
  std::vector<TokenId> tokens;
  BlockKey key = parent;
  for (int block = 0; block <= i; ++block) {
    parent = key;
    tokens = {block, block + 1};
    key = child_key(parent, tokens);
  }
  return std::make_shared<TierEntry>(
      TierEntry{.key = key,
                .parent = parent,
                .tokens = tokens,
                .bytes = EntryBytes::copy_of(std::vector<std::byte>(kEntryBytes, std::byte(i)))});
}

std::vector<TierEntryPtr> chain_entries(int count) {
  std::vector<TierEntryPtr> entries;
  for (int i = 0; i < count; ++i)
    entries.push_back(chain_entry(i));
  return entries;
}

std::vector<TierLoad::Item> chain_items(int count) {
  std::vector<TierLoad::Item> items;
  for (const TierEntryPtr& entry : chain_entries(count)) {
    items.push_back({.key = entry->key,
                     .parent = entry->parent,
                     .tokens = entry->tokens,
                     .num_bytes = entry->bytes.size()});
  }
  return items;
}

std::vector<TierEntryPtr> load_chain(KvTiers& tiers, int count) {
  const std::shared_ptr<TierLoad> load = tiers.load(chain_items(count), 2 * count);
  if (load == nullptr) return {};
  while (!load->is_done())
    tiers.wait_for_load(milliseconds(10));
  return load->take();
}

void expect_chain(const std::vector<TierEntryPtr>& entries, int count) {
  ASSERT_EQ(entries.size(), static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i)
    EXPECT_EQ(entries[static_cast<std::size_t>(i)]->bytes, chain_entry(i)->bytes) << i;
}

class KvTiersTest : public testing::Test {
 protected:
  std::filesystem::path dir() const { return temp_ / "kv"; }

  TempDir temp_;
};

TEST_F(KvTiersTest, LoadsFromHostMemoryAtOnce) {
  KvTiers tiers(kRoom, 0, {});
  tiers.store(chain_entries(5));
  EXPECT_TRUE(tiers.has_stored(chain_entry(4)->key));
  const std::shared_ptr<TierLoad> load = tiers.load(chain_items(5), 10);
  ASSERT_NE(load, nullptr);
  EXPECT_TRUE(load->is_done());
  expect_chain(load->take(), 5);
}

TEST_F(KvTiersTest, WritesBehindAndPromotesToHostMemory) {
  {
    KvTiers tiers(0, kRoom, dir());
    tiers.store(chain_entries(20));
    EXPECT_TRUE(tiers.has_stored(chain_entry(19)->key)) << "queued";
  }  // the end of the process writes the queue
  KvTiers tiers(kRoom, kRoom, dir());
  EXPECT_TRUE(tiers.contains(chain_entry(19)->key));
  EXPECT_FALSE(tiers.has_stored(chain_entry(19)->key)) << "host memory does not have it";
  expect_chain(load_chain(tiers, 20), 20);
  EXPECT_EQ(tiers.disk_stats().num_loads, 20);
  EXPECT_EQ(tiers.host_stats().num_blocks, 20);
  expect_chain(load_chain(tiers, 20), 20);
  EXPECT_EQ(tiers.disk_stats().num_loads, 20) << "the second load is from host memory";
}

TEST_F(KvTiersTest, DeliversTheBlocksBeforeAMissingOne) {
  KvTiers tiers(0, kRoom, dir());
  tiers.store(chain_entries(8));
  tiers.flush();
  ::unlink(block_path(dir(), chain_entry(3)->key).c_str());
  tiers.set_policy({.always_load = true});
  EXPECT_LE(load_chain(tiers, 8).size(), 3U);
  EXPECT_FALSE(tiers.contains(chain_entry(3)->key));
}

TEST_F(KvTiersTest, ALoadEndsAtItsTimeLimit) {
  KvTiers tiers(0, kRoom, dir());
  tiers.store(chain_entries(8));
  tiers.flush();
  tiers.set_policy({.always_load = true, .max_load_seconds = 0.05, .before_read = [] {
                      std::this_thread::sleep_for(milliseconds(500));
                    }});
  EXPECT_TRUE(load_chain(tiers, 8).empty());
}

TEST_F(KvTiersTest, MeasuredRatesDecide) {
  KvTiers tiers(kRoom, 0, {});
  tiers.store(chain_entries(4));
  tiers.record_prefill(1000, 1);          // 8 tokens: 8 ms
  tiers.record_fill(4 * kEntryBytes, 1);  // the same bytes: 1 s
  EXPECT_EQ(tiers.load(chain_items(4), 8), nullptr);
  EXPECT_NE(tiers.load(chain_items(4), 8000), nullptr);
  // A rate that was not used for long is tried again.
  bool is_loaded = false;
  for (int i = 0; i < 100 && !is_loaded; ++i)
    is_loaded = tiers.load(chain_items(4), 8) != nullptr;
  EXPECT_TRUE(is_loaded);
}

// What a killed process has written is complete or absent.
TEST_F(KvTiersTest, AKilledWriterLeavesOnlyWholeBlocks) {
  for (int round = 0; round < 5; ++round) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      for (int i = 0;; ++i)
        write_block(dir(), *chain_entry(i % 50));
    }
    std::this_thread::sleep_for(milliseconds(20 + 7 * round));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    KvTiers tiers(0, kRoom, dir());
    tiers.set_policy({.always_load = true});
    int count = 0;
    while (count < 50 && tiers.contains(chain_entry(count)->key))
      ++count;
    expect_chain(load_chain(tiers, count), count);
    EXPECT_EQ(tiers.disk_stats().num_errors, 0);
  }
}

TEST_F(KvTiersTest, TwoProcessesShareAFolder) {
  constexpr std::uint64_t kSmall = 20 * kEntryBytes;
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    DiskTier tier(dir(), kSmall);
    for (int i = 0; i < 300; ++i)
      tier.store(*chain_entry(i % 60));
    ::_exit(tier.stats().num_errors == 0 ? 0 : 1);
  }
  DiskTier tier(dir(), kSmall);
  for (int i = 300; i > 0; --i) {
    const TierEntryPtr entry = chain_entry(i % 60);
    tier.store(*entry);
    const TierEntryPtr loaded = tier.load({.key = entry->key,
                                           .parent = entry->parent,
                                           .tokens = entry->tokens,
                                           .num_bytes = entry->bytes.size()});
    if (loaded) {
      EXPECT_EQ(loaded->bytes, entry->bytes);
    }
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(tier.stats().num_errors, 0) << tier.last_error();
  std::uint64_t bytes = 0;
  for (const DiskFile& file : scan_folder(dir()))
    bytes += file.bytes;
  EXPECT_LE(bytes, kSmall + kSmall / 8);
}

}  // namespace
}  // namespace graft::engine
