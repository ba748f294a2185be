#include "graft/kernels/cuda/linear/lora.h"

#include "graft/kernels/cuda/launch.cuh"

namespace graft::kernels::cuda {
namespace {

constexpr int kShrinkWarps = 8;
constexpr int kExpandThreads = 256;
// Rows of y that a launch covers: the limit of a grid in y.
constexpr std::int64_t kMaxGridY = 65535;

// Block: a row, a head and kShrinkWarps components of the rank, one per warp.
__global__ void lora_shrink_kernel(LoraJob job, LoraRowsView x, float* low) {
  begin_kernel();
  const std::int64_t row = blockIdx.x;
  const std::int64_t head = blockIdx.y;
  const std::int32_t adapter = job.adapters[row];
  if (adapter < 0) return;
  const LoraEntry entry = job.entries[adapter];
  const std::int64_t i =
      static_cast<std::int64_t>(blockIdx.z) * kShrinkWarps + threadIdx.x / kWarpSize;
  if (entry.a == nullptr || i >= entry.rank) return;
  const float* values = x.data + row * x.row_stride + head * x.head_stride;
  const float* factors = entry.a + head * entry.a_head_elems + i * job.in;
  float sum = 0.0F;
  for (std::int64_t col = threadIdx.x % kWarpSize; col < job.in; col += kWarpSize)
    sum += values[col] * factors[col];
  sum = warp_sum(sum);
  if (threadIdx.x % kWarpSize == 0) low[(row * job.heads + head) * job.max_rank + i] = sum;
}

// Block: a row, a head and kExpandThreads columns.
__global__ void lora_expand_kernel(LoraJob job, LoraRowsView y, const float* low) {
  begin_kernel();
  const std::int64_t row = blockIdx.x;
  const std::int64_t head = blockIdx.y;
  const std::int32_t adapter = job.adapters[row];
  if (adapter < 0) return;
  const LoraEntry entry = job.entries[adapter];
  const std::int64_t col = static_cast<std::int64_t>(blockIdx.z) * kExpandThreads + threadIdx.x;
  if (entry.a == nullptr || col >= job.out) return;
  const float* values = low + (row * job.heads + head) * job.max_rank;
  const float* factors = entry.b + head * entry.b_head_elems + col;
  float sum = 0.0F;
  for (std::int64_t i = 0; i < entry.rank; ++i)
    sum += values[i] * factors[i * job.out];
  y.data[row * y.row_stride + head * y.head_stride + col] += sum;
}

}  // namespace

void add_lora(
    const LoraJob& job, const LoraRowsView& x, const LoraRowsView& y, float* low, Stream stream) {
  if (job.max_rank == 0) return;
  if (job.heads > kMaxGridY || blocks_for(job.out, kExpandThreads) > kMaxGridY)
    fail("adapters: ", job.heads, " heads of ", job.out, " values are too many for a launch");
  const auto rows = static_cast<unsigned>(job.rows);
  const auto heads = static_cast<unsigned>(job.heads);
  launch("lora_shrink", lora_shrink_kernel,
         {{rows, heads, blocks_for(job.max_rank, kShrinkWarps)}, kShrinkWarps * kWarpSize}, stream,
         job, x, low);
  launch("lora_expand", lora_expand_kernel,
         {{rows, heads, blocks_for(job.out, kExpandThreads)}, kExpandThreads}, stream, job, y,
         static_cast<const float*>(low));
}

}  // namespace graft::kernels::cuda
