#include "graft/engine/tiers/kv_tiers.h"

#include <algorithm>
#include <utility>

namespace graft::engine {
namespace {

constexpr int kNumReaders = 4;
// Blocks that wait for the writer; more are dropped, so that a slow disk cannot fill the memory.
constexpr std::uint64_t kMaxQueuedBytes = std::uint64_t{256} << 20U;
// At the end of the process.
constexpr std::chrono::seconds kMaxFlush{20};
// Limits of the time that a sequence waits for its blocks, and without measured rates.
constexpr double kMinLoadSeconds = 0.2;
constexpr double kMaxLoadSeconds = 10;
constexpr double kUnknownLoadSeconds = 2;
// Weight of a new measurement.
constexpr double kNewShare = 0.3;
// After a decision against the disk its rate is assumed to recover, so that it is measured again.
constexpr double kRecovery = 1.1;
// Prefill steps below are dominated by their fixed costs.
constexpr std::int64_t kMinMeasuredTokens = 32;

void add_sample(double& rate, double sample) {
  rate = rate == 0 ? sample : rate + kNewShare * (sample - rate);
}

double seconds_of(TierLoad::Clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace

bool TierLoad::is_done() const {
  const std::lock_guard lock(mutex_);
  return num_open_ == 0 || is_failed_ || Clock::now() >= deadline_;
}

std::vector<TierEntryPtr> TierLoad::take() {
  const std::lock_guard lock(mutex_);
  is_cancelled_ = true;
  const auto missing = std::ranges::find(found_, nullptr);
  found_.erase(missing, found_.end());
  return std::move(found_);
}

KvTiers::KvTiers(std::uint64_t host_bytes,
                 std::uint64_t disk_bytes,
                 const std::filesystem::path& dir,
                 BlockMemory* memory)
    : host_(host_bytes > 0 ? std::make_unique<HostTier>(host_bytes) : nullptr),
      disk_(disk_bytes > 0 ? std::make_unique<DiskTier>(dir, disk_bytes, memory) : nullptr) {
  if (disk_ == nullptr) return;
  for (int i = 0; i < kNumReaders; ++i)
    threads_.emplace_back([this] { run_reader(); });
  threads_.emplace_back([this] { run_writer(); });
}

KvTiers::~KvTiers() {
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
    stop_at_ = Clock::now() + kMaxFlush;
  }
  reads_changed_.notify_all();
  writes_changed_.notify_all();
  for (std::thread& thread : threads_)
    thread.join();
}

void KvTiers::set_policy(TierPolicy policy) {
  const std::lock_guard lock(mutex_);
  policy_ = std::move(policy);
}

bool KvTiers::contains(const BlockKey& key) const {
  return (host_ && host_->contains(key)) || (disk_ && disk_->contains(key));
}

bool KvTiers::has_stored(const BlockKey& key) const {
  if (host_ && !host_->contains(key)) return false;
  if (disk_ == nullptr || disk_->contains(key)) return true;
  const std::lock_guard lock(mutex_);
  return queued_keys_.contains(key);
}

// Last block first: a parent is then more recently used than its children, which are useless
// without it and are evicted before it.
void KvTiers::store(std::vector<TierEntryPtr> entries) {
  std::ranges::reverse(entries);
  for (TierEntryPtr& entry : entries) {
    if (host_) host_->store(entry);
    if (disk_ == nullptr || disk_->contains(entry->key)) continue;
    const std::lock_guard lock(mutex_);
    if (queued_bytes_ + entry->bytes.size() > kMaxQueuedBytes && !writes_.empty()) continue;
    if (!queued_keys_.insert(entry->key).second) continue;
    queued_bytes_ += entry->bytes.size();
    writes_.push_back(std::move(entry));
  }
  writes_changed_.notify_all();
}

std::shared_ptr<TierLoad> KvTiers::load(std::vector<TierLoad::Item> items,
                                        std::int64_t num_tokens) {
  auto load = std::make_shared<TierLoad>(std::move(items));
  std::size_t num_bytes = 0;
  std::size_t disk_bytes = 0;
  // Last block first, as in store(). Nothing else uses `load` yet.
  for (std::size_t i = load->items_.size(); i-- > 0;) {
    const TierLoad::Item& item = load->items_[i];
    if (host_) load->found_[i] = host_->find(item.query());
    num_bytes += item.num_bytes;
    if (load->found_[i] == nullptr) {
      disk_bytes += item.num_bytes;
      ++load->num_open_;
    }
  }
  if (!is_worth_loading(num_bytes, disk_bytes, num_tokens)) return nullptr;
  load->started_ = Clock::now();
  load->deadline_ = load->started_ + time_limit(num_tokens);
  if (load->num_open_ == 0) return load;
  if (disk_ == nullptr) {  // evicted from host memory since contains()
    load->is_failed_ = true;
    return load;
  }
  {
    const std::lock_guard lock(mutex_);
    for (std::size_t i = 0; i < load->items_.size(); ++i)
      if (load->found_[i] == nullptr) reads_.push_back({.load = load, .item = i});
  }
  reads_changed_.notify_all();
  return load;
}

bool KvTiers::is_worth_loading(std::size_t num_bytes,
                               std::size_t disk_bytes,
                               std::int64_t num_tokens) {
  const std::lock_guard lock(mutex_);
  if (policy_.always_load || rates_.prefill_tokens_per_s == 0) return true;
  double seconds = 0;
  if (rates_.disk_bytes_per_s > 0)
    seconds += static_cast<double>(disk_bytes) / rates_.disk_bytes_per_s;
  if (rates_.fill_bytes_per_s > 0)
    seconds += static_cast<double>(num_bytes) / rates_.fill_bytes_per_s;
  if (seconds < static_cast<double>(num_tokens) / rates_.prefill_tokens_per_s) return true;
  rates_.disk_bytes_per_s *= kRecovery;
  rates_.fill_bytes_per_s *= kRecovery;
  return false;
}

// Twice the time to recompute: a load that takes longer is not worth waiting for.
KvTiers::Clock::duration KvTiers::time_limit(std::int64_t num_tokens) const {
  const std::lock_guard lock(mutex_);
  double seconds = kUnknownLoadSeconds;
  if (rates_.prefill_tokens_per_s > 0) {
    seconds = std::clamp(2 * static_cast<double>(num_tokens) / rates_.prefill_tokens_per_s,
                         kMinLoadSeconds, kMaxLoadSeconds);
  }
  if (policy_.max_load_seconds > 0) seconds = policy_.max_load_seconds;
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

void KvTiers::count_misses(std::int64_t count) {
  if (count == 0) return;
  if (host_) host_->count_misses(count);
  if (disk_ == nullptr) return;
  disk_->count_misses(count);
  {
    const std::lock_guard lock(mutex_);
    wants_refresh_ = true;
  }
  writes_changed_.notify_all();
}

void KvTiers::wait_for_load(std::chrono::milliseconds limit) {
  std::unique_lock lock(mutex_);
  load_done_.wait_for(lock, limit);
}

void KvTiers::flush() {
  std::unique_lock lock(mutex_);
  load_done_.wait(lock, [&] { return disk_ == nullptr || (writes_.empty() && !is_writing_); });
}

void KvTiers::record_prefill(std::int64_t num_tokens, double seconds) {
  if (num_tokens < kMinMeasuredTokens || seconds <= 0) return;
  const std::lock_guard lock(mutex_);
  add_sample(rates_.prefill_tokens_per_s, static_cast<double>(num_tokens) / seconds);
}

void KvTiers::record_fill(std::size_t num_bytes, double seconds) {
  if (num_bytes == 0 || seconds <= 0) return;
  const std::lock_guard lock(mutex_);
  add_sample(rates_.fill_bytes_per_s, static_cast<double>(num_bytes) / seconds);
}

void KvTiers::run_reader() {
  for (;;) {
    Read next;
    {
      std::unique_lock lock(mutex_);
      reads_changed_.wait(lock, [&] { return is_stopping_ || !reads_.empty(); });
      if (is_stopping_) return;
      next = std::move(reads_.front());
      reads_.pop_front();
    }
    read(next);
  }
}

void KvTiers::read(const Read& next) {
  TierLoad& load = *next.load;
  {
    const std::lock_guard lock(load.mutex_);
    if (load.is_cancelled_ || load.is_failed_ || Clock::now() >= load.deadline_) return;
  }
  std::function<void()> before_read;
  {
    const std::lock_guard lock(mutex_);
    before_read = policy_.before_read;
  }
  if (before_read) before_read();
  TierEntryPtr entry = disk_->load(load.items_[next.item].query());
  if (entry && host_) host_->store(entry);
  finish(load, next.item, std::move(entry));
}

void KvTiers::finish(TierLoad& load, std::size_t item, TierEntryPtr entry) {
  double seconds = 0;
  std::size_t num_bytes = 0;
  {
    const std::lock_guard lock(load.mutex_);
    if (load.is_cancelled_) return;
    if (entry == nullptr) load.is_failed_ = true;
    load.found_[item] = std::move(entry);
    if (--load.num_open_ == 0 && !load.is_failed_) {
      seconds = seconds_of(Clock::now() - load.started_);
      for (const TierEntryPtr& found : load.found_)
        num_bytes += found->bytes.size();
    }
    if (load.num_open_ > 0 && !load.is_failed_) return;
  }
  {
    const std::lock_guard lock(mutex_);
    if (seconds > 0) add_sample(rates_.disk_bytes_per_s, static_cast<double>(num_bytes) / seconds);
  }
  load_done_.notify_all();
}

void KvTiers::run_writer() {
  for (;;) {
    TierEntryPtr entry;
    bool is_refreshing = false;
    {
      std::unique_lock lock(mutex_);
      is_writing_ = false;
      if (writes_.empty()) load_done_.notify_all();
      writes_changed_.wait(lock,
                           [&] { return is_stopping_ || wants_refresh_ || !writes_.empty(); });
      const bool is_late = stop_at_ && Clock::now() >= *stop_at_;
      if (is_stopping_ && (writes_.empty() || is_late)) return;
      is_refreshing = std::exchange(wants_refresh_, false);
      if (!writes_.empty()) {
        entry = std::move(writes_.front());
        writes_.pop_front();
        is_writing_ = true;
      }
    }
    if (is_refreshing) disk_->refresh();
    if (entry == nullptr) continue;
    disk_->store(*entry);
    const std::lock_guard lock(mutex_);
    queued_bytes_ -= entry->bytes.size();
    queued_keys_.erase(entry->key);
  }
}

}  // namespace graft::engine
