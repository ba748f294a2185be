// Sorts token-expert pairs by expert (stable counting sort) and cuts them into row tiles.

#include <algorithm>

#include "graft/kernels/cuda/launch.cuh"
#include "graft/kernels/cuda/moe/experts.h"

namespace graft::kernels::cuda {
namespace {

constexpr int kThreads = 1024;

__device__ int block_sum_int(int value) {
  __shared__ int warp_sums[kWarpSize];
  GRAFT_UNROLL
  for (int step = kWarpSize / 2; step > 0; step /= 2)
    value += __shfl_xor_sync(kAllLanes, value, step);
  if (threadIdx.x % kWarpSize == 0) warp_sums[threadIdx.x / kWarpSize] = value;
  __syncthreads();
  int total = 0;
  for (unsigned i = 0; i < blockDim.x / kWarpSize; ++i)
    total += warp_sums[i];
  return total;
}

// One block per expert.
__global__ void count_pairs_kernel(const std::int32_t* expert_ids,
                                   std::int64_t num_pairs,
                                   std::int32_t* counts) {
  begin_kernel();
  const auto expert = static_cast<std::int32_t>(blockIdx.x);
  int count = 0;
  for (std::int64_t i = threadIdx.x; i < num_pairs; i += blockDim.x)
    count += expert_ids[i] == expert ? 1 : 0;
  const int total = block_sum_int(count);
  if (threadIdx.x == 0) counts[expert] = total;
}

// First index in `order` and first tile of an expert.
struct ExpertRange {
  int first_index;
  int first_tile;
};

// Prefix sums over the experts before this one. Every block computes its own: a few hundred
// additions.
__device__ ExpertRange expert_range(const std::int32_t* counts, int expert, int tile_rows) {
  ExpertRange range = {0, 0};
  for (int i = 0; i < expert; ++i) {
    range.first_index += counts[i];
    range.first_tile += (counts[i] + tile_rows - 1) / tile_rows;
  }
  return range;
}

// One block per expert. Scans all pairs, blockDim.x at a time, in order: a pair's index is the
// number of matching pairs before it.
__global__ void scatter_pairs_kernel(const std::int32_t* expert_ids,
                                     std::int64_t num_pairs,
                                     int tile_rows,
                                     PairGroups groups) {
  begin_kernel();
  __shared__ int matches[kWarpSize];
  const auto expert = static_cast<std::int32_t>(blockIdx.x);
  const int count = groups.counts[expert];
  if (count == 0) return;
  const ExpertRange range = expert_range(groups.counts, expert, tile_rows);
  const auto lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const auto warp = static_cast<int>(threadIdx.x) / kWarpSize;
  const auto num_warps = static_cast<int>(blockDim.x) / kWarpSize;
  int index = range.first_index;
  for (std::int64_t begin = 0; begin < num_pairs; begin += blockDim.x) {
    const std::int64_t pair = begin + threadIdx.x;
    const bool match = pair < num_pairs && expert_ids[pair] == expert;
    const unsigned mask = __ballot_sync(kAllLanes, match);
    if (lane == 0) matches[warp] = static_cast<int>(__popc(mask));
    __syncthreads();
    int index_of_pair = index + static_cast<int>(__popc(mask & ((1U << lane) - 1)));
    for (int i = 0; i < num_warps; ++i) {
      if (i < warp) index_of_pair += matches[i];
      index += matches[i];
    }
    if (match) groups.order[index_of_pair] = static_cast<std::int32_t>(pair);
    __syncthreads();  // before `matches` is overwritten
  }
  for (int tile = static_cast<int>(threadIdx.x); tile * tile_rows < count;
       tile += static_cast<int>(blockDim.x)) {
    const int left = count - tile * tile_rows;
    groups.tiles[range.first_tile + tile] = {.matrix = expert,
                                             .first = range.first_index + tile * tile_rows,
                                             .count = left < tile_rows ? left : tile_rows};
  }
}

// Full warps, no more than there are pairs.
unsigned threads_for(std::int64_t num_pairs) {
  return static_cast<unsigned>(
      std::clamp<std::int64_t>(ceil_div(num_pairs, kWarpSize) * kWarpSize, kWarpSize, kThreads));
}

}  // namespace

std::int64_t max_row_tiles(std::int64_t num_pairs,
                           std::int64_t num_experts,
                           std::int64_t tile_rows) {
  // Full tiles, plus one partial tile per expert with pairs.
  return num_pairs / tile_rows + std::min(num_pairs, num_experts);
}

void group_pairs(const std::int32_t* expert_ids,
                 std::int64_t num_pairs,
                 std::int64_t num_experts,
                 std::int64_t tile_rows,
                 const PairGroups& out,
                 Stream stream) {
  const auto bytes =
      static_cast<std::size_t>(max_row_tiles(num_pairs, num_experts, tile_rows)) * sizeof(RowTile);
  check_launch("clear_tiles", cudaMemsetAsync(out.tiles, 0, bytes, stream), stream);
  const LaunchShape shape = {static_cast<unsigned>(num_experts), threads_for(num_pairs)};
  launch("count_pairs", count_pairs_kernel, shape, stream, expert_ids, num_pairs, out.counts);
  launch("scatter_pairs", scatter_pairs_kernel, shape, stream, expert_ids, num_pairs,
         static_cast<int>(tile_rows), out);
}

}  // namespace graft::kernels::cuda
