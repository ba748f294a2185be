// The tiers below the KV cache, host memory and disk, and the threads that read and write files.
// Nothing here waits for the disk except the threads: a lookup reads an index, a store is queued,
// and a load reports its progress. Thread-safe.
//
// Blocks are written to both tiers when they are computed. A load that fails or is late delivers
// the blocks before the missing one; the rest is recomputed. Whether to load or to recompute is
// decided by the measured rates of both.

#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <unordered_set>
#include <utility>
#include <vector>

#include "graft/engine/tiers/block_key.h"
#include "graft/engine/tiers/disk_tier.h"
#include "graft/engine/tiers/host_tier.h"
#include "graft/engine/tiers/tier_entry.h"
#include "graft/llm.h"

namespace graft::engine {

// Consecutive blocks of one sequence, on their way from the tiers.
class TierLoad {
 public:
  using Clock = std::chrono::steady_clock;

  struct Item {
    BlockKey key;
    BlockKey parent;
    std::vector<TokenId> tokens;
    std::size_t num_bytes = 0;

    TierQuery query() const {
      return {.key = key, .parent = parent, .tokens = tokens, .num_bytes = num_bytes};
    }
  };

  explicit TierLoad(std::vector<Item> items) : items_(std::move(items)), found_(items_.size()) {}

  // Nothing more will arrive: all is read, a block failed, or the time is over.
  bool is_done() const;
  // The leading blocks that have arrived. Cancels the rest.
  std::vector<TierEntryPtr> take();

 private:
  friend class KvTiers;

  const std::vector<Item> items_;
  mutable std::mutex mutex_;
  std::vector<TierEntryPtr> found_;
  std::size_t num_open_ = 0;  // not read yet
  bool is_failed_ = false;
  bool is_cancelled_ = false;
  Clock::time_point started_ = {};
  Clock::time_point deadline_ = {};
};

// For tests: the rates of a small model on a busy machine vary too much.
struct TierPolicy {
  bool always_load = false;                // whatever the measured rates
  double max_load_seconds = 0;             // 0: derived from the time to recompute
  std::function<void()> before_read = {};  // called by the threads before each file
};

class KvTiers {
 public:
  // memory: see DiskTier. Throws Error when the folder cannot be used.
  KvTiers(std::uint64_t host_bytes,
          std::uint64_t disk_bytes,
          const std::filesystem::path& dir,
          BlockMemory* memory = nullptr);
  KvTiers(const KvTiers&) = delete;
  KvTiers& operator=(const KvTiers&) = delete;
  ~KvTiers();  // writes what is queued, for a few seconds at most

  void set_policy(TierPolicy policy);

  // In all tiers that exist, or on its way there.
  bool has_stored(const BlockKey& key) const;
  // In any tier.
  bool contains(const BlockKey& key) const;

  // Consecutive blocks, parents first.
  void store(std::vector<TierEntryPtr> entries);

  // Starts to load blocks of which contains() is true. num_tokens: to recompute otherwise.
  // Null: recomputing is faster.
  std::shared_ptr<TierLoad> load(std::vector<TierLoad::Item> items, std::int64_t num_tokens);
  void count_misses(std::int64_t count);
  // Until a load is done, or the time is over.
  void wait_for_load(std::chrono::milliseconds limit);
  // Until everything queued is on disk.
  void flush();

  // Measured by the engine.
  void record_prefill(std::int64_t num_tokens, double seconds);
  void record_fill(std::size_t num_bytes, double seconds);  // from host memory to the KV cache

  TierStats host_stats() const { return host_ ? host_->stats() : TierStats(); }
  TierStats disk_stats() const { return disk_ ? disk_->stats() : TierStats(); }

 private:
  using Clock = std::chrono::steady_clock;

  struct Read {
    std::shared_ptr<TierLoad> load;
    std::size_t item = 0;
  };
  struct Rates {
    double prefill_tokens_per_s = 0;  // 0: not measured yet
    double disk_bytes_per_s = 0;
    double fill_bytes_per_s = 0;
  };

  void run_reader();
  void run_writer();
  void read(const Read& next);
  void finish(TierLoad& load, std::size_t item, TierEntryPtr entry);
  bool is_worth_loading(std::size_t num_bytes, std::size_t disk_bytes, std::int64_t num_tokens);
  Clock::duration time_limit(std::int64_t num_tokens) const;

  std::unique_ptr<HostTier> host_;  // null: none
  std::unique_ptr<DiskTier> disk_;  // null: none

  mutable std::mutex mutex_;
  std::condition_variable reads_changed_;
  std::condition_variable writes_changed_;
  std::condition_variable load_done_;
  std::deque<Read> reads_;
  std::deque<TierEntryPtr> writes_;
  std::unordered_set<BlockKey, BlockKeyHash> queued_keys_;  // of writes_
  std::uint64_t queued_bytes_ = 0;                          // of writes_
  bool is_writing_ = false;
  bool wants_refresh_ = false;
  bool is_stopping_ = false;
  std::optional<Clock::time_point> stop_at_ = {};
  Rates rates_;
  TierPolicy policy_;
  std::vector<std::thread> threads_;  // last: they use everything above
};

}  // namespace graft::engine
