#include "graft/engine/tiers/disk_tier.h"

#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <ios>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "graft/base/error.h"
#include "graft/base/system/temp_dir.h"

namespace graft::engine {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kPayload = 4000;
constexpr std::uint64_t kPlenty = 1U << 30U;

TierEntry disk_entry(TokenId token, std::size_t num_bytes = kPayload) {
  const std::vector<TokenId> tokens = {token, token + 1, token + 2};
  const BlockKey parent = {.high = 3, .low = 4};
  return {.key = child_key(parent, tokens),
          .parent = parent,
          .tokens = tokens,
          .bytes = EntryBytes::copy_of(std::vector<std::byte>(num_bytes, std::byte(token)))};
}

TierQuery disk_query(const TierEntry& entry) {
  return {.key = entry.key,
          .parent = entry.parent,
          .tokens = entry.tokens,
          .num_bytes = entry.bytes.size()};
}

mode_t mode_of(const fs::path& path) {
  struct stat info = {};
  EXPECT_EQ(::stat(path.c_str(), &info), 0) << path;
  return info.st_mode & 0777U;
}

// Minutes since the last use.
void set_age(const fs::path& path, int minutes) {
  fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::minutes(minutes));
}

std::uint64_t bytes_in(const fs::path& dir) {
  std::uint64_t bytes = 0;
  for (const DiskFile& file : scan_folder(dir))
    bytes += file.bytes;
  return bytes;
}

class DiskTierTest : public testing::Test {
 protected:
  fs::path dir() const { return temp_ / "kv"; }
  fs::path path_of(const TierEntry& entry) const { return block_path(dir(), entry.key); }

  TempDir temp_;
};

TEST_F(DiskTierTest, KeepsBlocksAcrossRestarts) {
  const TierEntry entry = disk_entry(1);
  {
    DiskTier tier(dir(), kPlenty);
    EXPECT_FALSE(tier.contains(entry.key));
    EXPECT_TRUE(tier.store(entry));
  }
  DiskTier tier(dir(), kPlenty);
  ASSERT_TRUE(tier.contains(entry.key));
  const TierEntryPtr loaded = tier.load(disk_query(entry));
  ASSERT_NE(loaded, nullptr);
  EXPECT_EQ(loaded->bytes, entry.bytes);
  EXPECT_EQ(loaded->tokens, entry.tokens);
  const TierStats stats = tier.stats();
  EXPECT_EQ(stats.num_blocks, 1);
  EXPECT_EQ(stats.num_loads, 1);
  EXPECT_EQ(stats.bytes, fs::file_size(path_of(entry)));
}

TEST_F(DiskTierTest, FilesAreForTheOwnerOnly) {
  DiskTier tier(dir(), kPlenty);
  const TierEntry entry = disk_entry(1);
  tier.store(entry);
  EXPECT_EQ(mode_of(dir()), 0700U);
  EXPECT_EQ(mode_of(path_of(entry).parent_path()), 0700U);
  EXPECT_EQ(mode_of(path_of(entry)), 0600U);
}

TEST_F(DiskTierTest, RejectsAFolderThatOthersCanWriteTo) {
  fs::create_directory(dir());
  ::chmod(dir().c_str(), 0777);
  EXPECT_THROW(DiskTier(dir(), kPlenty), Error);
  std::ofstream(temp_ / "file") << "x";
  EXPECT_THROW(DiskTier(temp_ / "file", kPlenty), Error);
  EXPECT_THROW(DiskTier(temp_ / "file" / "kv", kPlenty), Error);
}

// Every length and every byte of a file: none gives an entry.
TEST_F(DiskTierTest, TornAndDamagedFilesAreMisses) {
  DiskTier tier(dir(), kPlenty);
  const TierEntry entry = disk_entry(1, 40);
  tier.store(entry);
  std::ifstream in(path_of(entry), std::ios::binary);
  const std::string good((std::istreambuf_iterator<char>(in)), {});
  ASSERT_EQ(good.size(), kEntryHeaderBytes + 12 + 40);
  const auto expect_miss = [&](const std::string& bytes, const std::string& what) {
    std::ofstream(path_of(entry), std::ios::binary | std::ios::trunc) << bytes;
    EXPECT_EQ(tier.load(disk_query(entry)), nullptr) << what;
    EXPECT_FALSE(fs::exists(path_of(entry))) << what << ": kept";
  };
  for (std::size_t size = 0; size < good.size(); ++size)
    expect_miss(good.substr(0, size), "size " + std::to_string(size));
  for (std::size_t at = 0; at < good.size(); ++at) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 4);
    expect_miss(bad, "byte " + std::to_string(at));
  }
  expect_miss(good + "x", "longer");
  EXPECT_EQ(tier.stats().num_errors, static_cast<std::int64_t>(2 * good.size() + 1));
  EXPECT_FALSE(tier.last_error().empty());
}

TEST_F(DiskTierTest, ComparesTokensAndParent) {
  DiskTier tier(dir(), kPlenty);
  const TierEntry entry = disk_entry(1);
  tier.store(entry);
  const std::vector<TokenId> others = {1, 2, 4};
  TierQuery query = disk_query(entry);
  query.tokens = others;
  EXPECT_EQ(tier.load(query), nullptr);
  query = disk_query(entry);
  query.parent.high = 9;
  EXPECT_EQ(tier.load(query), nullptr);
  query = disk_query(entry);
  query.num_bytes -= 1;
  EXPECT_EQ(tier.load(query), nullptr);
  EXPECT_TRUE(fs::exists(path_of(entry))) << "a valid block was removed";
  // A block under the name of another.
  const TierEntry other = disk_entry(7);
  fs::create_directories(path_of(other).parent_path());
  fs::rename(path_of(entry), path_of(other));
  EXPECT_EQ(tier.load(disk_query(other)), nullptr);
}

TEST_F(DiskTierTest, EvictsTheLeastRecentlyUsedBlocks) {
  constexpr std::uint64_t kMax = 45000;  // 11 blocks
  DiskTier tier(dir(), kMax);
  for (TokenId token = 1; token <= 10; ++token) {
    EXPECT_TRUE(tier.store(disk_entry(token)));
    set_age(path_of(disk_entry(token)), 60 - token);
  }
  // A use makes the oldest one the newest.
  EXPECT_NE(tier.load(disk_query(disk_entry(1))), nullptr);
  for (TokenId token = 11; token <= 14; ++token) {
    EXPECT_TRUE(tier.store(disk_entry(token)));
    EXPECT_LE(bytes_in(dir()), kMax);
  }
  EXPECT_TRUE(tier.contains(disk_entry(1).key));
  EXPECT_FALSE(tier.contains(disk_entry(2).key));
  EXPECT_FALSE(fs::exists(path_of(disk_entry(2))));
  EXPECT_TRUE(tier.contains(disk_entry(14).key));
  EXPECT_GE(tier.stats().num_evictions, 3);
  EXPECT_FALSE(tier.store(disk_entry(50, kMax)));
}

TEST_F(DiskTierTest, ForeignFilesAreLeftAlone) {
  DiskTier tier(dir(), 20000);
  tier.store(disk_entry(1));
  const fs::path sub = path_of(disk_entry(1)).parent_path();
  const std::vector<fs::path> foreign = {dir() / "notes.txt", sub / "notes.txt", sub / "abc.kv",
                                         dir() / "photos" / "a.kv"};
  fs::create_directory(dir() / "photos");
  for (const fs::path& path : foreign)
    std::ofstream(path) << std::string(30000, 'x');
  for (TokenId token = 2; token <= 9; ++token)
    EXPECT_TRUE(tier.store(disk_entry(token)));
  for (const fs::path& path : foreign)
    EXPECT_TRUE(fs::exists(path)) << path;
  // A folder, a FIFO and a link under the name of a block.
  const TierEntry entry = disk_entry(20);
  fs::create_directories(path_of(entry));
  EXPECT_EQ(tier.load(disk_query(entry)), nullptr);
  fs::remove(path_of(entry));
  ASSERT_EQ(::mkfifo(path_of(entry).c_str(), 0600), 0);
  EXPECT_EQ(tier.load(disk_query(entry)), nullptr);
  fs::remove(path_of(entry));
  const TierEntry kept = disk_entry(9);
  fs::create_symlink(path_of(kept), path_of(entry));
  EXPECT_EQ(tier.load(disk_query(entry)), nullptr);
}

TEST_F(DiskTierTest, RemovesPartialFilesOfDeadProcesses) {
  DiskTier tier(dir(), kPlenty);
  tier.store(disk_entry(1));
  const fs::path sub = path_of(disk_entry(1)).parent_path();
  std::ofstream(sub / "partial-1-1-1") << "x";
  std::ofstream(sub / "partial-1-1-2") << "x";
  set_age(sub / "partial-1-1-1", 60);
  EXPECT_EQ(scan_folder(dir()).size(), 1U);
  EXPECT_FALSE(fs::exists(sub / "partial-1-1-1"));
  EXPECT_TRUE(fs::exists(sub / "partial-1-1-2")) << "may be in use";
}

TEST_F(DiskTierTest, SurvivesADeletedFolder) {
  DiskTier tier(dir(), kPlenty);
  const TierEntry entry = disk_entry(1);
  tier.store(entry);
  fs::remove_all(dir());
  EXPECT_EQ(tier.load(disk_query(entry)), nullptr);
  EXPECT_FALSE(tier.contains(entry.key));
  EXPECT_TRUE(tier.store(entry));
  EXPECT_NE(tier.load(disk_query(entry)), nullptr);
  EXPECT_EQ(mode_of(dir()), 0700U);
}

TEST_F(DiskTierTest, AFailedWritePausesTheTier) {
  DiskTier tier(dir(), kPlenty);
  const TierEntry entry = disk_entry(1);
  // A file where the subfolder should be fails like a full disk, also for root.
  std::ofstream(path_of(entry).parent_path()) << "x";
  EXPECT_FALSE(tier.store(entry));
  EXPECT_EQ(tier.stats().num_errors, 1);
  fs::remove(path_of(entry).parent_path());
  EXPECT_FALSE(tier.store(entry)) << "paused";
  EXPECT_EQ(tier.stats().num_errors, 1);
  EXPECT_FALSE(tier.contains(entry.key));
}

// Writes beyond the file size limit of the process fail in the middle, as on a full disk.
TEST_F(DiskTierTest, AFullDiskLeavesNoPartialBlock) {
  DiskTier tier(dir(), kPlenty);
  ASSERT_TRUE(tier.store(disk_entry(2)));
  const TierEntry entry = disk_entry(1, 100000);
  rlimit before = {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto ignored = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small = {.rlim_cur = 50000, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const bool is_stored = tier.store(entry);
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, ignored);
  EXPECT_FALSE(is_stored);
  EXPECT_NE(tier.last_error().find("cannot write"), std::string::npos) << tier.last_error();
  EXPECT_TRUE(fs::is_empty(path_of(entry).parent_path())) << "a partial file was left";
  EXPECT_NE(tier.load(disk_query(disk_entry(2))), nullptr);
}

TEST_F(DiskTierTest, TiersShareAFolderAndItsLimit) {
  constexpr std::uint64_t kMax = 100000;
  DiskTier one(dir(), kMax);
  DiskTier two(dir(), kMax);
  for (TokenId token = 1; token <= 100; ++token) {
    one.store(disk_entry(token));
    two.store(disk_entry(token + 1000));
    // Each may be ahead of its last look at the folder by a sixteenth.
    EXPECT_LE(bytes_in(dir()), kMax + kMax / 8);
  }
  EXPECT_GT(bytes_in(dir()), kMax / 2);
  // The folder is measured before a write that may exceed the limit.
  const TierEntry shared = disk_entry(5000);
  EXPECT_TRUE(one.store(shared));
  EXPECT_TRUE(two.store(shared));
  EXPECT_NE(one.load(disk_query(shared)), nullptr);
  EXPECT_NE(two.load(disk_query(shared)), nullptr);
}

TEST_F(DiskTierTest, DropsBlocksWhileAnotherProcessEvicts) {
  DiskTier tier(dir(), 9000);
  tier.store(disk_entry(1));
  tier.store(disk_entry(2));
  {
    const FolderLock other(dir());
    ASSERT_TRUE(other.is_held());
    EXPECT_FALSE(tier.store(disk_entry(3)));
  }
  EXPECT_TRUE(tier.store(disk_entry(3)));
}

}  // namespace
}  // namespace graft::engine
