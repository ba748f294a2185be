// Host memory of the blocks in the tiers. Where a GPU copies them it is page-locked, in pieces of
// one block that are used again; a thread locks more before they are needed, because that takes
// milliseconds. Thread-safe.

#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "graft/tensor/buffer.h"
#include "graft/tensor/device.h"

namespace graft::engine {

// Memory of one block, freed with its last owner.
class EntryBytes {
 public:
  EntryBytes() = default;
  // Contents are undefined.
  explicit EntryBytes(std::size_t size)
      : EntryBytes(std::make_unique_for_overwrite<std::byte[]>(size), size) {}
  EntryBytes(std::shared_ptr<std::byte[]> memory, std::size_t size)
      : memory_(std::move(memory)), size_(size) {}
  static EntryBytes copy_of(std::span<const std::byte> bytes);

  std::size_t size() const { return size_; }
  std::byte* data() { return memory_.get(); }
  const std::byte* data() const { return memory_.get(); }
  std::span<std::byte> bytes() { return {data(), size_}; }
  std::span<const std::byte> bytes() const { return {data(), size_}; }
  bool operator==(const EntryBytes& other) const {
    return std::ranges::equal(bytes(), other.bytes());
  }

 private:
  std::shared_ptr<std::byte[]> memory_;
  std::size_t size_ = 0;
};

class BlockMemory {
 public:
  // Page-locked for `device`; the CPU: ordinary memory.
  BlockMemory(std::size_t block_bytes, Device device);
  ~BlockMemory();
  BlockMemory(const BlockMemory&) = delete;
  BlockMemory& operator=(const BlockMemory&) = delete;

  // Blocks that allocate() has page-locked memory for now; all of them where none is needed or the
  // system locks no more.
  std::int64_t num_ready() const;
  // Ordinary memory when none is ready, and for other sizes than that of a block.
  EntryBytes allocate(std::size_t size);

 private:
  // The owners of pieces keep it.
  struct Pool {
    std::mutex mutex;
    std::condition_variable changed;
    std::vector<Buffer> slabs;
    std::vector<std::byte*> free;
    bool is_locking = true;  // false: not needed, or the system refused
    bool is_stopping = false;
  };

  void run_locker();

  const std::size_t block_bytes_;
  const Device device_;
  std::shared_ptr<Pool> pool_;
  std::thread locker_;
};

}  // namespace graft::engine
