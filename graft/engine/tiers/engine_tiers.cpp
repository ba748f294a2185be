// The engine's part of the KV cache tiers: copies computed blocks to them between steps, and keeps
// the measurements that decide between loading and recomputing.

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "graft/engine/engine.h"
#include "graft/engine/tiers/block_memory.h"
#include "graft/engine/tiers/cache_identity.h"
#include "graft/engine/tiers/kv_tiers.h"
#include "graft/engine/tiers/sequence_tiers.h"
#include "graft/models/block_transfer.h"

namespace graft::engine {
namespace {

// Copies by the host, between steps, take this share of the time, so that they do not slow down
// decoding.
constexpr double kCopyShare = 0.05;
constexpr double kMinCopySeconds = 0.0005;
// Without other work; new requests wait this long.
constexpr double kMaxIdleCopySeconds = 0.02;
// Fewer free blocks than this share: blocks that wait for their copy would soon be evicted.
constexpr std::int64_t kLowFreeShare = 8;
// Blocks of a copy beside the passes.
constexpr std::int64_t kMaxSavedBlocks = 64;
// Loaded in a step, about 5 ms over PCIe and 10 ms in host memory.
constexpr std::size_t kMaxFillBytesAsync = std::size_t{256} << 20U;
constexpr std::size_t kMaxFillBytes = std::size_t{64} << 20U;
constexpr std::chrono::milliseconds kLoadWait{2};

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

void Engine::open_tiers() {
  if (config_.kv_host_bytes == 0 && config_.kv_disk_bytes == 0) return;
  models::Model& model = open_.model();
  models::BlockTransfer& transfer = model.block_transfer();
  block_memory_ = std::make_unique<BlockMemory>(transfer.block_bytes(), transfer.device());
  kv_tiers_ = std::make_unique<KvTiers>(config_.kv_host_bytes, config_.kv_disk_bytes,
                                        config_.kv_dir, block_memory_.get());
  const CacheIdentity identity = {.model = model_identity(open_),
                                  .cache_form = model.cache_form(),
                                  .block_tokens = blocks_.block_tokens()};
  const SequenceTiers::Sizes sizes = {
      .block_tokens = blocks_.block_tokens(),
      .block_bytes = model.cache_bytes_per_block(),
      .state_bytes = states_ == nullptr ? 0 : model.state_bytes_per_slot(),
      .max_fill_bytes = transfer.is_async() ? kMaxFillBytesAsync : kMaxFillBytes};
  tiers_ = std::make_unique<SequenceTiers>(*kv_tiers_, identity, sizes, blocks_, states_.get());
  scheduler_.use_tiers(tiers_.get());
}

// Blocks of the process's last requests, which the next process may use. They are valid even
// when the engine stops after a failure: failed steps clear the queue.
void Engine::close_tiers() noexcept {
  if (tiers_ == nullptr) return;
  try {
    finish_storing();
  } catch (const std::exception&) {
    discard_copies();  // the device is gone
  }
}

void Engine::queue_blocks(const Step& step) {
  if (tiers_ == nullptr) return;
  for (const Step::Row& row : step.rows) {
    if (row.sequence->state == SequenceState::Running)
      tiers_->queue_blocks(*row.sequence, row.num_computed);
  }
}

// Starts to copy the next queued blocks to the tiers.
void Engine::start_saving(std::size_t max_blocks) {
  TierCopy copy;
  std::vector<ops::HostBlock> blocks;
  for (const SequenceTiers::Unstored& next : tiers_->take_queued(max_blocks)) {
    if (next.is_state) {
      next.entry->bytes = EntryBytes(tiers_->sizes().state_bytes);
      open_.model().save_state(next.slot, next.entry->bytes.bytes());
    } else {
      next.entry->bytes = block_memory_->allocate(tiers_->sizes().block_bytes);
      blocks.push_back({.block = next.block, .data = next.entry->bytes.data()});
    }
    copy.entries.push_back(next.entry);
  }
  if (copy.entries.empty()) return;
  copy.copy = open_.model().block_transfer().start_save(blocks);
  tier_copies_.push_back(std::move(copy));
}

// Negative: all.
void Engine::store_blocks(double max_seconds) {
  if (tiers_ == nullptr) return;
  const Clock::time_point start = Clock::now();
  models::BlockTransfer& transfer = open_.model().block_transfer();
  const bool is_all = max_seconds < 0;
  while (tiers_->num_queued() > 0 && (is_all || seconds_since(start) <= max_seconds)) {
    std::int64_t max_blocks = 1;
    if (transfer.is_async()) {
      const std::int64_t ready = std::min(transfer.num_free(), block_memory_->num_ready());
      if (ready == 0 && !is_all) break;
      max_blocks = std::clamp(ready, std::int64_t{1}, kMaxSavedBlocks);
    }
    start_saving(static_cast<std::size_t>(max_blocks));
  }
  collect_copies(/*waits=*/false);
}

void Engine::finish_storing() {
  store_blocks(/*max_seconds=*/-1);
  collect_copies(/*waits=*/true);
}

// Hands saved blocks to the tiers, in their order, and frees loaded ones.
void Engine::collect_copies(bool waits) {
  if (tier_copies_.empty()) return;
  models::BlockTransfer& transfer = open_.model().block_transfer();
  if (waits) transfer.wait();
  std::vector<TierEntryPtr> saved;
  while (!tier_copies_.empty() && transfer.is_done(tier_copies_.front().copy)) {
    TierCopy copy = std::move(tier_copies_.front());
    tier_copies_.pop_front();
    if (!copy.is_load) {
      saved.insert(saved.end(), copy.entries.begin(), copy.entries.end());
      continue;
    }
    std::size_t num_bytes = 0;
    for (const TierEntryPtr& entry : copy.entries)
      num_bytes += entry->bytes.size();
    kv_tiers_->record_fill(num_bytes, transfer.seconds(copy.copy));
  }
  if (!saved.empty()) kv_tiers_->store(std::move(saved));
}

// After a failed step: the contents of blocks are unknown.
void Engine::discard_copies() noexcept {
  if (tiers_ == nullptr) return;
  tiers_->clear_queue();
  try {
    open_.model().block_transfer().wait();
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): the device is gone
  }
  tier_copies_.clear();
}

void Engine::store_after_step(double step_seconds) {
  if (tiers_ == nullptr) return;
  if (scheduler_.is_idle() && !in_flight_) {
    store_blocks(kMaxIdleCopySeconds);
    collect_copies(/*waits=*/true);
    return;
  }
  const bool is_low = blocks_.num_free() < blocks_.num_blocks() / kLowFreeShare;
  store_blocks(is_low ? -1 : std::max(kMinCopySeconds, kCopyShare * step_seconds));
}

void Engine::load_blocks(const Schedule& schedule) {
  if (schedule.loads.empty()) return;
  TierCopy copy = {.copy = 0, .is_load = true, .entries = {}};
  std::vector<ops::ConstHostBlock> blocks;
  for (const TierFill& fill : schedule.loads) {
    blocks.push_back({.block = fill.to, .data = fill.entry->bytes.data()});
    copy.entries.push_back(fill.entry);
  }
  copy.copy = open_.model().block_transfer().start_load(blocks);
  tier_copies_.push_back(std::move(copy));
}

void Engine::wait_for_tiers(const Schedule& schedule) {
  if (tiers_ == nullptr || !schedule.empty() || !schedule.loads.empty() || in_flight_) return;
  if (scheduler_.num_loading() > 0) kv_tiers_->wait_for_load(kLoadWait);
}

}  // namespace graft::engine
