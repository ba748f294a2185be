// KV cache blocks of a GPU on their way to and from host memory. Kernels on the stream of the
// passes gather the parts of all layers into a staging buffer, or scatter them from it, which takes
// microseconds; the copies over PCIe run on streams of their own, one per direction.

#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "graft/kernels/cuda/cache/copy_blocks.h"
#include "graft/ops/cuda/runtime/runtime.h"
#include "graft/ops/devices/block_copies.h"
#include "graft/tensor/buffer.h"

namespace graft::ops::cuda {

class CudaBlockCopies final : public BlockCopies {
 public:
  // `passes`: the stream of the passes, which must outlive the object.
  CudaBlockCopies(Device device, const CudaStream& passes, const std::vector<BlockPart>& parts);
  CudaBlockCopies(const CudaBlockCopies&) = delete;
  CudaBlockCopies& operator=(const CudaBlockCopies&) = delete;
  ~CudaBlockCopies() override;

  std::int64_t num_free() override;
  std::uint64_t start_save(std::span<const HostBlock> blocks) override;
  std::uint64_t start_load(std::span<const ConstHostBlock> blocks) override;
  bool is_done(std::uint64_t copy) override;
  double seconds(std::uint64_t copy) override;
  void wait() override;

 private:
  // Consecutive bytes of a block that this GPU has.
  struct Run {
    std::size_t begin = 0;
    std::size_t end = 0;
  };
  // A part of a copy: at most kMaxCopiedBlocks blocks.
  struct Batch {
    std::uint64_t copy = 0;
    std::int64_t num_slots = 0;
    std::unique_ptr<CudaEvent> begin = std::make_unique<CudaEvent>(EventKind::Timed);
    std::unique_ptr<CudaEvent> end = std::make_unique<CudaEvent>(EventKind::Timed);
    // After it the staging memory is free: scattering follows the copy.
    std::unique_ptr<CudaEvent> done = std::make_unique<CudaEvent>();
  };
  struct Timing {
    std::uint64_t copy = 0;
    double seconds = 0;
  };

  template <class Block>
  std::uint64_t start(std::span<const Block> blocks);
  void start_batch(std::span<const HostBlock> blocks, Batch& batch);
  void start_batch(std::span<const ConstHostBlock> blocks, Batch& batch);
  template <class Block>
  kernels::cuda::CopyBlocksJob job_of(std::span<const Block> blocks) const;
  std::byte* slot_data(std::int64_t slot) const;
  void collect_done();
  void wait_for_slots(std::int64_t count);

  Device device_;
  const CudaStream& passes_;
  CudaStream out_;
  CudaStream in_;
  CudaEvent gathered_;
  std::vector<Run> runs_;
  std::size_t first_byte_ = 0;  // of a block
  std::size_t slot_bytes_ = 0;
  Buffer parts_;
  std::int64_t num_parts_ = 0;
  Buffer staging_;
  std::int64_t num_slots_ = 0;
  std::int64_t next_slot_ = 0;
  std::int64_t num_used_ = 0;  // slots before next_slot_
  std::uint64_t num_copies_ = 0;
  std::deque<Batch> batches_;  // not done, oldest first
  std::deque<Timing> timings_;
};

}  // namespace graft::ops::cuda
