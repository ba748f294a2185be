#include "graft/ops/cuda/runtime/block_copies.h"

#include <algorithm>
#include <utility>

#include "graft/base/check.h"

namespace graft::ops::cuda {
namespace {

// At 50 GB/s the staging buffer is copied in little more than a millisecond.
constexpr std::size_t kStagingBytes = std::size_t{64} << 20U;
constexpr std::int64_t kMinSlots = 2;
// Copies whose times are kept.
constexpr std::size_t kMaxTimings = 4096;

}  // namespace

CudaBlockCopies::CudaBlockCopies(Device device,
                                 const CudaStream& passes,
                                 const std::vector<BlockPart>& parts)
    : device_(device), passes_(passes), out_(device.index), in_(device.index) {
  GRAFT_CHECK(!parts.empty(), "no caches");
  first_byte_ = parts.front().offset;
  std::vector<kernels::cuda::CacheBlockPart> gathered;
  for (const BlockPart& part : parts) {
    if (runs_.empty() || runs_.back().end != part.offset)
      runs_.push_back({.begin = part.offset, .end = part.offset});
    runs_.back().end += part.bytes;
    gathered.push_back(
        {.blocks = part.blocks, .bytes = part.bytes, .offset = part.offset - first_byte_});
  }
  constexpr std::size_t kAlignment = 256;
  const std::size_t bytes = runs_.back().end - first_byte_;
  slot_bytes_ = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  num_slots_ = std::max(static_cast<std::int64_t>(kStagingBytes / slot_bytes_), kMinSlots);
  use_gpu(device_.index);
  staging_ = Buffer(slot_bytes_ * static_cast<std::size_t>(num_slots_), device_);
  num_parts_ = static_cast<std::int64_t>(gathered.size());
  parts_ = Buffer(gathered.size() * sizeof(gathered.front()), device_);
  copy_in_order(device_.index, parts_.data(), gathered.data(), parts_.size(),
                cudaMemcpyHostToDevice);
}

CudaBlockCopies::~CudaBlockCopies() {
  for (const Batch& batch : batches_)
    batch.done->wait_unchecked();
}

std::byte* CudaBlockCopies::slot_data(std::int64_t slot) const {
  return staging_.data() + static_cast<std::size_t>(slot % num_slots_) * slot_bytes_;
}

void CudaBlockCopies::collect_done() {
  while (!batches_.empty() && batches_.front().done->is_done()) {
    const Batch& batch = batches_.front();
    const double seconds = CudaEvent::seconds_between(*batch.begin, *batch.end);
    if (!timings_.empty() && timings_.back().copy == batch.copy) {
      timings_.back().seconds += seconds;
    } else {
      timings_.push_back({.copy = batch.copy, .seconds = seconds});
      if (timings_.size() > kMaxTimings) timings_.pop_front();
    }
    num_used_ -= batch.num_slots;
    batches_.pop_front();
  }
}

std::int64_t CudaBlockCopies::num_free() {
  use_gpu(device_.index);
  collect_done();
  return num_slots_ - num_used_;
}

void CudaBlockCopies::wait_for_slots(std::int64_t count) {
  collect_done();
  while (num_slots_ - num_used_ < count) {
    batches_.front().done->wait();
    collect_done();
  }
}

template <class Block>
kernels::cuda::CopyBlocksJob CudaBlockCopies::job_of(std::span<const Block> blocks) const {
  kernels::cuda::CopyBlocksJob job = {
      .parts = reinterpret_cast<const kernels::cuda::CacheBlockPart*>(parts_.data()),
      .num_parts = num_parts_,
      .num_blocks = static_cast<std::int64_t>(blocks.size())};
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    job.blocks[i] = blocks[i].block;
    job.gathered[i] = slot_data(next_slot_ + static_cast<std::int64_t>(i));
  }
  return job;
}

void CudaBlockCopies::start_batch(std::span<const HostBlock> blocks, Batch& batch) {
  const kernels::cuda::CopyBlocksJob job = job_of(blocks);
  kernels::cuda::gather_blocks(job, passes_.get());
  gathered_.record(passes_);
  gathered_.hold(out_);
  batch.begin->record(out_);
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    for (const Run& run : runs_) {
      check_cuda(
          cudaMemcpyAsync(blocks[i].data + run.begin, job.gathered[i] + (run.begin - first_byte_),
                          run.end - run.begin, cudaMemcpyDeviceToHost, out_.get()),
          "copying blocks of the KV cache to the host");
    }
  }
  batch.end->record(out_);
  batch.done->record(out_);
}

void CudaBlockCopies::start_batch(std::span<const ConstHostBlock> blocks, Batch& batch) {
  const kernels::cuda::CopyBlocksJob job = job_of(blocks);
  batch.begin->record(in_);
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    for (const Run& run : runs_) {
      check_cuda(
          cudaMemcpyAsync(job.gathered[i] + (run.begin - first_byte_), blocks[i].data + run.begin,
                          run.end - run.begin, cudaMemcpyHostToDevice, in_.get()),
          "copying blocks of the KV cache to the GPU");
    }
  }
  batch.end->record(in_);
  batch.end->hold(passes_);
  kernels::cuda::scatter_blocks(job, passes_.get());
  batch.done->record(passes_);
}

template <class Block>
std::uint64_t CudaBlockCopies::start(std::span<const Block> blocks) {
  use_gpu(device_.index);
  const auto max_batch =
      static_cast<std::size_t>(std::min<std::int64_t>(kernels::cuda::kMaxCopiedBlocks, num_slots_));
  while (!blocks.empty()) {
    const std::span<const Block> some = blocks.first(std::min(max_batch, blocks.size()));
    const auto count = static_cast<std::int64_t>(some.size());
    wait_for_slots(count);
    Batch batch;
    batch.copy = num_copies_;
    batch.num_slots = count;
    start_batch(some, batch);
    next_slot_ = (next_slot_ + count) % num_slots_;
    num_used_ += count;
    batches_.push_back(std::move(batch));
    blocks = blocks.subspan(some.size());
  }
  return num_copies_++;
}

std::uint64_t CudaBlockCopies::start_save(std::span<const HostBlock> blocks) {
  return start(blocks);
}

std::uint64_t CudaBlockCopies::start_load(std::span<const ConstHostBlock> blocks) {
  return start(blocks);
}

bool CudaBlockCopies::is_done(std::uint64_t copy) {
  use_gpu(device_.index);
  collect_done();
  return std::ranges::none_of(batches_, [&](const Batch& batch) { return batch.copy <= copy; });
}

double CudaBlockCopies::seconds(std::uint64_t copy) {
  const auto found = std::ranges::find(timings_, copy, &Timing::copy);
  return found == timings_.end() ? 0 : found->seconds;
}

void CudaBlockCopies::wait() {
  use_gpu(device_.index);
  try {
    wait_for_slots(num_slots_);
  } catch (...) {
    batches_.clear();
    num_used_ = 0;
    throw;
  }
}

}  // namespace graft::ops::cuda
