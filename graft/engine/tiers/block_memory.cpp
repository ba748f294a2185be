#include "graft/engine/tiers/block_memory.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "graft/base/error.h"

namespace graft::engine {
namespace {

constexpr std::size_t kSlabBytes = std::size_t{64} << 20U;
// Memory that is locked ahead: a GPU computes about this much of the KV cache of a model of 8
// billion parameters while as much is locked.
constexpr std::size_t kReadyBytes = std::size_t{256} << 20U;

std::size_t blocks_in(std::size_t bytes, std::size_t block_bytes) {
  return std::max<std::size_t>(1, bytes / block_bytes);
}

}  // namespace

EntryBytes EntryBytes::copy_of(std::span<const std::byte> bytes) {
  EntryBytes copy(bytes.size());
  if (!bytes.empty()) std::memcpy(copy.data(), bytes.data(), bytes.size());
  return copy;
}

BlockMemory::BlockMemory(std::size_t block_bytes, Device device)
    : block_bytes_(block_bytes), device_(device), pool_(std::make_shared<Pool>()) {
  pool_->is_locking = device.type != DeviceType::Cpu && block_bytes > 0;
  if (pool_->is_locking) locker_ = std::thread([this] { run_locker(); });
}

BlockMemory::~BlockMemory() {
  if (!locker_.joinable()) return;
  {
    const std::lock_guard lock(pool_->mutex);
    pool_->is_stopping = true;
  }
  pool_->changed.notify_all();
  locker_.join();
}

std::int64_t BlockMemory::num_ready() const {
  const std::lock_guard lock(pool_->mutex);
  if (!pool_->is_locking) return std::numeric_limits<std::int64_t>::max();
  return static_cast<std::int64_t>(pool_->free.size());
}

EntryBytes BlockMemory::allocate(std::size_t size) {
  std::byte* piece = nullptr;
  if (size == block_bytes_) {
    const std::lock_guard lock(pool_->mutex);
    if (!pool_->free.empty()) {
      piece = pool_->free.back();
      pool_->free.pop_back();
    }
  }
  if (piece == nullptr) return EntryBytes(size);
  pool_->changed.notify_all();
  const auto free = [pool = pool_](std::byte* memory) {
    const std::lock_guard lock(pool->mutex);
    pool->free.push_back(memory);
  };
  return {std::shared_ptr<std::byte[]>(piece, free), size};
}

void BlockMemory::run_locker() {
  const std::size_t num_ready = blocks_in(kReadyBytes, block_bytes_);
  const std::size_t per_slab = blocks_in(kSlabBytes, block_bytes_);
  std::unique_lock lock(pool_->mutex);
  for (;;) {
    pool_->changed.wait(lock, [&] { return pool_->is_stopping || pool_->free.size() < num_ready; });
    if (pool_->is_stopping) return;
    lock.unlock();
    Buffer slab;
    try {
      slab = Buffer::staging(per_slab * block_bytes_, device_);
    } catch (const Error&) {  // copies of ordinary memory are slower, and work
      lock.lock();
      pool_->is_locking = false;
      return;
    }
    lock.lock();
    pool_->free.reserve((pool_->slabs.size() + 1) * per_slab);
    for (std::size_t i = per_slab; i-- > 0;)
      pool_->free.push_back(slab.data() + i * block_bytes_);
    pool_->slabs.push_back(std::move(slab));
  }
}

}  // namespace graft::engine
