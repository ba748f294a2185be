// The engine's part of the KV cache tiers: copies computed blocks to them between steps, and keeps
// the measurements that decide between loading and recomputing.

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <span>

#include "graft/engine/engine.h"
#include "graft/engine/tiers/cache_identity.h"
#include "graft/engine/tiers/kv_tiers.h"
#include "graft/engine/tiers/sequence_tiers.h"

namespace graft::engine {
namespace {

// Copies between steps take this share of the time, so that they do not slow down decoding.
constexpr double kCopyShare = 0.05;
constexpr double kMinCopySeconds = 0.0005;
// Without other work; new requests wait this long.
constexpr double kMaxIdleCopySeconds = 0.02;
// Fewer free blocks than this share: blocks that wait for their copy would soon be evicted.
constexpr std::int64_t kLowFreeShare = 8;
// A copy waits for the step in flight, so there are few, of many blocks.
constexpr std::size_t kMinDeviceBlocks = 128;
constexpr double kMaxDeviceCopySeconds = 0.02;
constexpr std::chrono::milliseconds kLoadWait{2};

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

void Engine::open_tiers() {
  if (config_.kv_host_bytes == 0 && config_.kv_disk_bytes == 0) return;
  const models::Model& model = open_.model();
  kv_tiers_ =
      std::make_unique<KvTiers>(config_.kv_host_bytes, config_.kv_disk_bytes, config_.kv_dir);
  const CacheIdentity identity = {.model = model_identity(open_),
                                  .cache_form = model.cache_form(),
                                  .block_tokens = blocks_.block_tokens()};
  const SequenceTiers::Sizes sizes = {
      .block_tokens = blocks_.block_tokens(),
      .block_bytes = model.cache_bytes_per_block(),
      .state_bytes = states_ == nullptr ? 0 : model.state_bytes_per_slot()};
  tiers_ = std::make_unique<SequenceTiers>(*kv_tiers_, identity, sizes, blocks_, states_.get());
  scheduler_.use_tiers(tiers_.get());
}

// Blocks of the process's last requests, which the next process may use. They are valid even
// when the engine stops after a failure: failed steps clear the queue.
void Engine::close_tiers() noexcept {
  if (tiers_ == nullptr) return;
  try {
    store_blocks(/*max_seconds=*/-1);
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): the device is gone
  }
}

void Engine::queue_blocks(const Step& step) {
  if (tiers_ == nullptr) return;
  for (const Step::Row& row : step.rows) {
    if (row.sequence->state == SequenceState::Running)
      tiers_->queue_blocks(*row.sequence, row.num_computed);
  }
}

// Negative: all.
void Engine::store_blocks(double max_seconds) {
  if (tiers_ == nullptr || tiers_->num_queued() == 0) return;
  const Clock::time_point start = Clock::now();
  const models::Model& model = open_.model();
  tiers_->store_queued(
      {.block = [&](BlockId block, std::span<std::byte> out) { model.save_block(block, out); },
       .state = [&](SlotId slot, std::span<std::byte> out) { model.save_state(slot, out); },
       .is_over = [&] { return max_seconds >= 0 && seconds_since(start) > max_seconds; }});
}

void Engine::store_after_step(double step_seconds) {
  if (tiers_ == nullptr) return;
  if (scheduler_.is_idle() && !in_flight_) {
    store_blocks(kMaxIdleCopySeconds);
    return;
  }
  const bool is_low = blocks_.num_free() < blocks_.num_blocks() / kLowFreeShare;
  if (in_flight_ && !is_low) {
    if (tiers_->num_queued() >= kMinDeviceBlocks) store_blocks(kMaxDeviceCopySeconds);
    return;
  }
  store_blocks(is_low ? -1 : std::max(kMinCopySeconds, kCopyShare * step_seconds));
}

void Engine::load_blocks(const Schedule& schedule) {
  if (schedule.loads.empty()) return;
  const Clock::time_point start = Clock::now();
  std::size_t num_bytes = 0;
  for (const TierFill& fill : schedule.loads) {
    open_.model().load_block(fill.to, fill.entry->bytes);
    num_bytes += fill.entry->bytes.size();
  }
  kv_tiers_->record_fill(num_bytes, seconds_since(start));
}

void Engine::wait_for_tiers(const Schedule& schedule) {
  if (tiers_ == nullptr || !schedule.empty() || !schedule.loads.empty() || in_flight_) return;
  if (scheduler_.num_loading() > 0) kv_tiers_->wait_for_load(kLoadWait);
}

}  // namespace graft::engine
