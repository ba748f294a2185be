// Copies whole blocks of the KV cache between a device and host memory, beside its passes.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace graft::ops {

// The part of every block that one layer has on the device.
struct BlockPart {
  std::byte* blocks = nullptr;  // of the layer: block b is at blocks + b * bytes
  std::size_t bytes = 0;        // of a block
  std::size_t offset = 0;       // in the host memory of a block
};

// A block and its host memory, page-locked for the full speed. It must stay until the copy is done.
struct HostBlock {
  std::int64_t block = 0;
  std::byte* data = nullptr;
};
struct ConstHostBlock {
  std::int64_t block = 0;
  const std::byte* data = nullptr;
};

// Calls of start_save() and start_load() are counted from 0; those of a kind end in their order.
class BlockCopies {
 public:
  BlockCopies() = default;
  BlockCopies(const BlockCopies&) = delete;
  BlockCopies& operator=(const BlockCopies&) = delete;
  virtual ~BlockCopies() = default;

  // Blocks whose copy can start without waiting for earlier ones.
  virtual std::int64_t num_free() = 0;
  // To host memory: what the passes started so far have written. Later ones may overwrite it.
  virtual std::uint64_t start_save(std::span<const HostBlock> blocks) = 0;
  // From host memory: passes started later read it.
  virtual std::uint64_t start_load(std::span<const ConstHostBlock> blocks) = 0;
  // Throws Error when the device failed.
  virtual bool is_done(std::uint64_t copy) = 0;
  // Seconds that a copy that is done took, without the time it waited.
  virtual double seconds(std::uint64_t copy) = 0;
  // Until all are done. Throws Error when the device failed; then none is in progress.
  virtual void wait() = 0;
};

}  // namespace graft::ops
