// Copies whole blocks of all KV caches of a model to and from host memory. Where a device can, the
// copies run beside the passes; other caches are copied before the call returns.

#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "graft/ops/devices/block_copies.h"
#include "graft/ops/devices/device_context.h"
#include "graft/ops/operator.h"
#include "graft/tensor/device.h"

namespace graft::models {

class BlockTransfer {
 public:
  // A cache and its device, in the order of the parts of a block.
  struct Cache {
    ops::KvCache* cache = nullptr;
    Device device;
  };

  // The caches are allocated and stay so.
  BlockTransfer(std::span<const Cache> caches, ops::PassDevices& devices);

  std::size_t block_bytes() const { return block_bytes_; }
  // Whether copies run beside the passes. Otherwise they are done when start_…() returns.
  bool is_async() const { return !copies_.empty(); }
  // The device that host memory should be page-locked for; the CPU: none.
  Device device() const { return device_; }
  std::int64_t num_free();  // blocks, see BlockCopies

  // See BlockCopies.
  std::uint64_t start_save(std::span<const ops::HostBlock> blocks);
  std::uint64_t start_load(std::span<const ops::ConstHostBlock> blocks);
  bool is_done(std::uint64_t copy);
  double seconds(std::uint64_t copy);
  void wait();

 private:
  // A cache that is copied by the host.
  struct HostPart {
    ops::KvCache* cache = nullptr;
    std::size_t offset = 0;  // in a block
  };

  std::uint64_t count_copy(double host_seconds);

  std::size_t block_bytes_ = 0;
  Device device_ = kCpu;
  std::vector<HostPart> host_parts_;
  std::vector<std::unique_ptr<ops::BlockCopies>> copies_;  // by device
  std::uint64_t num_copies_ = 0;
  std::deque<double> host_seconds_;  // of the last copies
};

}  // namespace graft::models
