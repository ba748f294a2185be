// KV cache blocks in files. The folder is bounded by bytes, least recently used blocks are removed
// first; processes that share it share the bound. An in-memory index answers contains() without
// touching the disk. What cannot be read is a miss, what cannot be written is dropped. Thread-safe.

#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "graft/engine/tiers/block_key.h"
#include "graft/engine/tiers/disk_folder.h"
#include "graft/engine/tiers/tier_entry.h"
#include "graft/llm.h"

namespace graft::engine {

using graft::TierStats;

class DiskTier {
 public:
  using Clock = std::chrono::steady_clock;

  // Creates the folder and reads its names. Throws Error, see create_disk_folder().
  // Blocks are read to `memory`, which must outlive the object; null: to ordinary memory.
  DiskTier(std::filesystem::path dir, std::uint64_t max_bytes, BlockMemory* memory = nullptr);

  bool contains(const BlockKey& key) const;
  void count_misses(std::int64_t count);
  // Null: not found, damaged (then it is removed), or unreadable.
  TierEntryPtr load(const TierQuery& query);
  // False: dropped. After a failed write, the next ones are dropped for kPause.
  bool store(const TierEntry& entry);
  // Reads the folder again, so that blocks of other processes are found. At most once per
  // kScanInterval, and less often when it takes long.
  void refresh();

  const std::filesystem::path& dir() const { return dir_; }
  TierStats stats() const;
  std::string last_error() const;

  static constexpr std::chrono::seconds kPause{10};
  static constexpr std::chrono::seconds kScanInterval{5};

 private:
  bool make_room(std::uint64_t bytes);
  void scan(std::vector<DiskFile>& files);
  void erase(const BlockKey& key);
  void record_error(std::string error);

  const std::filesystem::path dir_;
  const std::uint64_t max_bytes_;
  BlockMemory* const memory_;
  mutable std::mutex mutex_;
  std::unordered_map<BlockKey, std::uint64_t, BlockKeyHash> index_;  // bytes by key
  TierStats stats_;
  std::string last_error_;
  std::uint64_t num_unscanned_bytes_ = 0;  // written since the last scan
  Clock::time_point next_scan_;
  Clock::time_point paused_until_ = {};
};

}  // namespace graft::engine
