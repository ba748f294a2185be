// Experts whose weights are in host memory, computed by the CPU and a GPU at the same time:
//
//     decode, short prefill   experts with a copy in GPU memory on the GPU, the others on the CPU
//     longer prefill          also on the GPU: the experts with the most rows, copied for the pass
//     long prefill            all experts on the GPU
//
// The copies in GPU memory follow the routing while the model runs. Both results are added. Which
// device computes an expert changes the last bits of a result.

#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "graft/ops/experts/device_experts.h"
#include "graft/ops/registry.h"

namespace graft::ops {

// Rows of a prefill pass from which on it copies experts: with fewer, waiting for the routing costs
// more than copies save. 0 stays 0.
constexpr std::int64_t min_streamed_rows(std::int64_t stream_from) {
  constexpr std::int64_t kSplitFactor = 4;
  return (stream_from + kSplitFactor - 1) / kSplitFactor;
}

// With the kwargs stream_from and gpu_experts; context.host_op holds the weights.
std::unique_ptr<Operator> make_hybrid_experts(const BuildContext& context,
                                              std::unique_ptr<DeviceExperts> device);

// Splits the experts of a prefill pass so that the copies over PCIe and the CPU take the same time:
// those with the most rows are copied. `break_even_rows`: rows of an expert for which the CPU takes
// as long as a copy; below 1 all experts are for the GPU. `is_resident`: copies that are in GPU
// memory. Returns the experts of the GPU.
ExpertMask split_by_cost(std::span<const std::int64_t> rows,
                         const ExpertMask& is_resident,
                         double break_even_rows);

}  // namespace graft::ops
