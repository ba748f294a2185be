#include "graft/ops/cuda/late_sampling.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "graft/base/check.h"
#include "graft/kernels/cuda/sample_tokens.h"
#include "graft/ops/cuda/sampling_inputs.h"
#include "graft/ops/cuda/views.h"

namespace graft::ops::cuda {
namespace {

// The masks of 16 sequences and 150,000 tokens take 300 kB.
constexpr std::size_t kMinParameterBytes = std::size_t{1} << 20U;

}  // namespace

void LateSampling::run(TensorView logits,
                       const BatchSampling& sampling,
                       std::int32_t* tokens,
                       const CudaStream& stream) {
  const auto rows = static_cast<std::int64_t>(sampling.rows.size());
  GRAFT_CHECK(rows <= logits.rows(), rows, " sampling parameters for ", logits.rows(), " rows");
  const std::size_t scratch = kernels::cuda::sample_tokens_bytes(rows, logits.cols());
  if (scratch > scratch_.size()) {
    stream.wait();  // kernels may still use the old one
    scratch_ = Buffer(scratch, device_);
  }
  values_.clear();
  const SamplingInputs at = append_sampling(sampling, values_);
  upload(stream);
  const auto* inputs = reinterpret_cast<const std::int32_t*>(inputs_.data());
  kernels::cuda::sample_tokens(
      rows_of(logits), rows, logits.cols(),
      {.rows = reinterpret_cast<const kernels::RowSampling*>(inputs + at.rows),
       .edits = reinterpret_cast<const kernels::LogitEdit*>(inputs + at.edits),
       .masks = reinterpret_cast<const std::uint32_t*>(inputs + at.edits),
       .tokens = tokens},
      scratch_.data(), stream.get());
}

void LateSampling::upload(const CudaStream& stream) {
  const std::size_t bytes = values_.size() * sizeof(std::int32_t);
  if (bytes > inputs_.size()) {
    stream.wait();  // kernels may still read the old buffer
    const std::size_t size = std::max(2 * bytes, kMinParameterBytes);
    inputs_ = Buffer(size, device_);
    staging_ = Buffer::staging(size, device_);
  }
  uploaded_.wait();
  std::memcpy(staging_.data(), values_.data(), bytes);
  check_cuda(
      cudaMemcpyAsync(inputs_.data(), staging_.data(), bytes, cudaMemcpyHostToDevice, stream.get()),
      "copying to the GPU");
  uploaded_.record(stream);
}

}  // namespace graft::ops::cuda
