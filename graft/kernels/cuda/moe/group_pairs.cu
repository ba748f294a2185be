#include <algorithm>

#include "graft/kernels/cuda/launch.cuh"
#include "graft/kernels/cuda/moe/experts.h"

namespace graft::kernels::cuda {
namespace {

constexpr int kThreads = 1024;

__device__ int block_sum_of(int value) {
  __shared__ int parts[kWarpSize];
  GRAFT_UNROLL
  for (int step = kWarpSize / 2; step > 0; step /= 2)
    value += __shfl_xor_sync(kAllLanes, value, step);
  if (threadIdx.x % kWarpSize == 0) parts[threadIdx.x / kWarpSize] = value;
  __syncthreads();
  int total = 0;
  for (unsigned i = 0; i < blockDim.x / kWarpSize; ++i)
    total += parts[i];
  return total;
}

// A block per expert.
__global__ void count_pairs_kernel(const std::int32_t* expert_ids,
                                   std::int64_t num_pairs,
                                   std::int32_t* counts) {
  const auto expert = static_cast<std::int32_t>(blockIdx.x);
  int count = 0;
  for (std::int64_t i = threadIdx.x; i < num_pairs; i += blockDim.x)
    count += expert_ids[i] == expert ? 1 : 0;
  const int total = block_sum_of(count);
  if (threadIdx.x == 0) counts[expert] = total;
}

struct ExpertRange {
  int first_place;
  int first_tile;
};

// What stands before an expert. Every block adds up for itself: a few hundred numbers at most.
__device__ ExpertRange range_of(const std::int32_t* counts, int expert, int tile_rows) {
  ExpertRange range = {0, 0};
  for (int i = 0; i < expert; ++i) {
    range.first_place += counts[i];
    range.first_tile += (counts[i] + tile_rows - 1) / tile_rows;
  }
  return range;
}

// A block per expert walks through all pairs, as many at a time as it has threads, and keeps their
// order: a pair's place is the number of matching pairs before it.
__global__ void place_pairs_kernel(const std::int32_t* expert_ids,
                                   std::int64_t num_pairs,
                                   int tile_rows,
                                   PairGroups groups) {
  __shared__ int matches[kWarpSize];
  const auto expert = static_cast<std::int32_t>(blockIdx.x);
  const int count = groups.counts[expert];
  if (count == 0) return;
  const ExpertRange range = range_of(groups.counts, expert, tile_rows);
  const auto lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const auto warp = static_cast<int>(threadIdx.x) / kWarpSize;
  const auto num_warps = static_cast<int>(blockDim.x) / kWarpSize;
  int place = range.first_place;
  for (std::int64_t begin = 0; begin < num_pairs; begin += blockDim.x) {
    const std::int64_t pair = begin + threadIdx.x;
    const bool match = pair < num_pairs && expert_ids[pair] == expert;
    const unsigned mask = __ballot_sync(kAllLanes, match);
    if (lane == 0) matches[warp] = static_cast<int>(__popc(mask));
    __syncthreads();
    int own = place + static_cast<int>(__popc(mask & ((1U << lane) - 1)));
    for (int i = 0; i < num_warps; ++i) {
      if (i < warp) own += matches[i];
      place += matches[i];
    }
    if (match) groups.order[own] = static_cast<std::int32_t>(pair);
    __syncthreads();  // before the counts are overwritten
  }
  for (int tile = static_cast<int>(threadIdx.x); tile * tile_rows < count;
       tile += static_cast<int>(blockDim.x)) {
    const int left = count - tile * tile_rows;
    groups.tiles[range.first_tile + tile] = {.matrix = expert,
                                             .first = range.first_place + tile * tile_rows,
                                             .count = left < tile_rows ? left : tile_rows};
  }
}

// Whole warps, no more than there is work for.
unsigned threads_for(std::int64_t num_pairs) {
  return static_cast<unsigned>(
      std::clamp<std::int64_t>(ceil_div(num_pairs, kWarpSize) * kWarpSize, kWarpSize, kThreads));
}

}  // namespace

std::int64_t max_row_tiles(std::int64_t num_pairs,
                           std::int64_t num_experts,
                           std::int64_t tile_rows) {
  // Whole tiles, and one that is not full for every expert with pairs.
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
  launch("place_pairs", place_pairs_kernel, shape, stream, expert_ids, num_pairs,
         static_cast<int>(tile_rows), out);
}

}  // namespace graft::kernels::cuda
