#include "graft/ops/cuda/sampled_tokens.h"

#include <algorithm>

#include "graft/base/check.h"

namespace graft::ops::cuda {
namespace {

// Enough for the usual max_num_seqs: growing it invalidates captured graphs.
constexpr std::size_t kMinTokens = 4096;

}  // namespace

bool SampledTokens::reserve(std::size_t count, const CudaStream& stream) {
  if (count * sizeof(std::int32_t) <= tokens_.size()) return false;
  stream.wait();  // kernels may still read the old array
  tokens_ = Buffer(std::max(2 * count, kMinTokens) * sizeof(std::int32_t), device_);
  return true;
}

void SampledTokens::start_copy(std::int64_t count, const CudaStream& stream) {
  GRAFT_CHECK(num_started_ - num_finished_ < copies_.size(), "tokens of ",
              num_started_ - num_finished_, " passes are on their way");
  Copy& copy = copies_[num_started_ % copies_.size()];
  copy.count = static_cast<std::size_t>(count);
  const std::size_t bytes = copy.count * sizeof(std::int32_t);
  if (bytes > copy.memory.size()) copy.memory = Buffer::staging(tokens_.size(), device_);
  if (bytes > 0) {
    check_cuda(cudaMemcpyAsync(copy.memory.data(), tokens_.data(), bytes, cudaMemcpyDeviceToHost,
                               stream.get()),
               "copying tokens from the GPU");
  }
  copy.done.record(stream);
  ++num_started_;
}

std::span<const std::int32_t> SampledTokens::finish_copy() {
  GRAFT_CHECK(num_finished_ < num_started_, "no tokens are on their way");
  Copy& copy = copies_[num_finished_++ % copies_.size()];
  copy.done.wait();
  return {reinterpret_cast<const std::int32_t*>(copy.memory.data()), copy.count};
}

void SampledTokens::discard() noexcept {
  for (const Copy& copy : copies_)
    copy.done.wait_unchecked();
  num_finished_ = num_started_;
}

}  // namespace graft::ops::cuda
