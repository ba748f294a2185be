#include "graft/engine/tiers/disk_tier.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include <unistd.h>

#include "graft/base/text/str.h"

namespace graft::engine {
namespace {

// Other processes write, too: the folder is measured again after this share of the limit.
constexpr std::uint64_t kScanShare = 16;
// Evicts some more than needed, so that not every write has to.
constexpr std::uint64_t kSlackShare = 16;
// A scan takes at most this share of the time.
constexpr int kScanPause = 20;

std::uint64_t file_bytes(const TierEntry& entry) {
  return kEntryHeaderBytes + entry.tokens.size() * sizeof(TokenId) + entry.bytes.size();
}

}  // namespace

DiskTier::DiskTier(std::filesystem::path dir, std::uint64_t max_bytes, BlockMemory* memory)
    : dir_(std::move(dir)), max_bytes_(max_bytes), memory_(memory) {
  create_disk_folder(dir_);
  std::vector<DiskFile> files;
  scan(files);
}

// Reads the folder without the lock: lookups do not wait for the disk.
void DiskTier::scan(std::vector<DiskFile>& files) {
  const Clock::time_point start = Clock::now();
  files = scan_folder(dir_);
  const Clock::time_point end = Clock::now();
  const std::lock_guard lock(mutex_);
  index_.clear();
  stats_.bytes = 0;
  for (const DiskFile& file : files) {
    index_[file.key] = file.bytes;
    stats_.bytes += file.bytes;
  }
  num_unscanned_bytes_ = 0;
  next_scan_ = end + std::max<Clock::duration>(kScanInterval, (end - start) * kScanPause);
}

void DiskTier::refresh() {
  {
    const std::lock_guard lock(mutex_);
    if (Clock::now() < next_scan_) return;
  }
  std::vector<DiskFile> files;
  scan(files);
}

bool DiskTier::contains(const BlockKey& key) const {
  const std::lock_guard lock(mutex_);
  return index_.contains(key);
}

void DiskTier::count_misses(std::int64_t count) {
  const std::lock_guard lock(mutex_);
  stats_.num_misses += count;
}

void DiskTier::erase(const BlockKey& key) {
  const std::lock_guard lock(mutex_);
  const auto found = index_.find(key);
  if (found == index_.end()) return;
  stats_.bytes -= std::min(stats_.bytes, found->second);
  index_.erase(found);
}

void DiskTier::record_error(std::string error) {
  const std::lock_guard lock(mutex_);
  ++stats_.num_errors;
  last_error_ = std::move(error);
}

TierEntryPtr DiskTier::load(const TierQuery& query) {
  auto entry = std::make_shared<TierEntry>();
  std::string error;
  const ReadResult result = read_block(dir_, query.key, *entry, error, memory_);
  if (result == ReadResult::Ok && matches(*entry, query)) {
    const std::lock_guard lock(mutex_);
    ++stats_.num_hits;
    ++stats_.num_loads;
    return entry;
  }
  if (result == ReadResult::Damaged) ::unlink(block_path(dir_, query.key).c_str());
  if (result == ReadResult::Damaged || result == ReadResult::Failed) record_error(std::move(error));
  // An unreadable block is not tried again before the next scan.
  erase(query.key);
  count_misses(1);
  return nullptr;
}

bool DiskTier::store(const TierEntry& entry) {
  const std::uint64_t bytes = file_bytes(entry);
  {
    const std::lock_guard lock(mutex_);
    if (index_.contains(entry.key)) return true;
    if (bytes > max_bytes_ || Clock::now() < paused_until_) return false;
  }
  if (!make_room(bytes)) return false;
  if (const int error = write_block(dir_, entry); error != 0) {
    record_error(str(dir_.string(), ": cannot write: ", std::strerror(error)));
    const std::lock_guard lock(mutex_);
    paused_until_ = Clock::now() + kPause;
    return false;
  }
  const std::lock_guard lock(mutex_);
  index_[entry.key] = bytes;
  stats_.bytes += bytes;
  num_unscanned_bytes_ += bytes;
  ++stats_.num_stores;
  return true;
}

bool DiskTier::make_room(std::uint64_t bytes) {
  {
    const std::lock_guard lock(mutex_);
    const bool is_measured = num_unscanned_bytes_ + bytes <= max_bytes_ / kScanShare;
    if (is_measured && stats_.bytes + bytes <= max_bytes_) return true;
  }
  const FolderLock folder(dir_);
  // Another process is making room: this block is dropped rather than written beyond the limit.
  if (!folder.is_held()) return false;
  std::vector<DiskFile> files;
  scan(files);
  std::uint64_t total = 0;
  for (const DiskFile& file : files)
    total += file.bytes;
  if (total + bytes <= max_bytes_) return true;
  std::ranges::sort(files, {}, &DiskFile::used_ns);
  const std::uint64_t target = max_bytes_ - std::max(bytes, max_bytes_ / kSlackShare);
  for (const DiskFile& file : files) {
    if (total <= target) break;
    ::unlink(block_path(dir_, file.key).c_str());
    total -= file.bytes;
    erase(file.key);
    const std::lock_guard lock(mutex_);
    ++stats_.num_evictions;
  }
  return true;
}

TierStats DiskTier::stats() const {
  const std::lock_guard lock(mutex_);
  TierStats stats = stats_;
  stats.capacity = max_bytes_;
  stats.num_blocks = static_cast<std::int64_t>(index_.size());
  return stats;
}

std::string DiskTier::last_error() const {
  const std::lock_guard lock(mutex_);
  return last_error_;
}

}  // namespace graft::engine
