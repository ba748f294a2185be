#include "graft/kernels/cuda/router.h"

#include "graft/base/check.h"
#include "graft/kernels/cuda/launch.cuh"

namespace graft::cuda {
namespace {

using Method = RouterShape::Method;
using Scoring = RouterShape::Scoring;

// Keeps the sum of the chosen weights from being 0, as the models' own code does.
constexpr float kSmallestSum = 1e-20F;

// A row's arrays in shared memory. Sizes: e = experts, g = groups.
struct RouterMemory {
  float* scores;        // [e]
  float* choice;        // [e] what the choice goes by
  float* group_scores;  // [g]
  int* taken;           // [e] 1: chosen already; then [g] for groups

  static __device__ RouterMemory at(const RouterShape& shape, float* memory) {
    RouterMemory m;
    m.scores = memory;
    m.choice = m.scores + shape.num_experts;
    m.group_scores = m.choice + shape.num_experts;
    m.taken = reinterpret_cast<int*>(m.group_scores + shape.num_groups);
    return m;
  }
  static std::size_t bytes(const RouterShape& shape) {
    return static_cast<std::size_t>(3 * shape.num_experts + 2 * shape.num_groups) * sizeof(float);
  }
};

// The number of the largest value that is not taken, of equals the first; takes it. A value that is
// no number is larger than nothing, but chosen before the array is left.
__device__ int take_best(const float* values, int* taken, int count, int lane) {
  int best = -1;
  for (int i = lane; i < count; i += kWarp) {
    if (taken[i] == 0 && (best < 0 || values[i] > values[best])) best = i;
  }
  GRAFT_UNROLL
  for (int step = kWarp / 2; step > 0; step /= 2) {
    const int other = __shfl_xor_sync(kAllLanes, best, step);
    if (other < 0) continue;
    // Both lanes of a pair must come to the same answer.
    const int low = best < 0 || other < best ? other : best;
    const int high = low == other ? best : other;
    best = high >= 0 && values[high] > values[low] ? high : low;
  }
  __syncwarp();
  if (lane == 0) taken[best] = 1;
  __syncwarp();
  return best;
}

__device__ void make_scores(const RouterShape& shape, const float* row, float* scores, int lane) {
  const auto count = static_cast<int>(shape.num_experts);
  if (shape.scoring == Scoring::Sigmoid) {
    for (int i = lane; i < count; i += kWarp)
      scores[i] = 1.0F / (1.0F + expf(-row[i]));
    return;
  }
  float max = -INFINITY;
  for (int i = lane; i < count; i += kWarp)
    max = fmaxf(max, row[i]);
  max = warp_max(max);
  float sum = 0.0F;
  for (int i = lane; i < count; i += kWarp) {
    scores[i] = expf(row[i] - max);
    sum += scores[i];
  }
  const float factor = 1.0F / warp_sum(sum);
  for (int i = lane; i < count; i += kWarp)
    scores[i] *= factor;
}

// What a group of experts is worth: its best score, or the sum of its best two.
__device__ float group_score(Method method, const float* scores, int count) {
  float first = -INFINITY;
  float second = -INFINITY;
  for (int i = 0; i < count; ++i) {
    second = fmaxf(second, fminf(first, scores[i]));
    first = fmaxf(first, scores[i]);
  }
  return method == Method::NoauxTc && count > 1 ? first + second : first;
}

// Only experts of the best groups stay eligible. DeepSeek-V2 (group_limited_greedy) gives the
// others the score 0 instead of none, so that they come last among positive scores.
__device__ void exclude_groups(const RouterShape& shape, const RouterMemory& m, int lane) {
  const auto num_groups = static_cast<int>(shape.num_groups);
  const auto size = static_cast<int>(shape.num_experts / shape.num_groups);
  int* kept = m.taken + shape.num_experts;
  for (int g = lane; g < num_groups; g += kWarp) {
    m.group_scores[g] = group_score(shape.method, m.choice + g * size, size);
    kept[g] = 0;
  }
  __syncwarp();
  for (int k = 0; k < static_cast<int>(shape.top_k_groups); ++k)
    take_best(m.group_scores, kept, num_groups, lane);
  const float masked = shape.method == Method::GroupLimitedGreedy ? 0.0F : -INFINITY;
  for (int i = lane; i < static_cast<int>(shape.num_experts); i += kWarp) {
    if (kept[i / size] == 0) m.choice[i] = masked;
  }
}

// A warp per row.
__global__ void route_kernel(RouterShape shape,
                             const float* scores,
                             const float* bias,
                             std::int32_t* expert_ids,
                             float* weights) {
  const std::int64_t row = blockIdx.x;
  const auto lane = static_cast<int>(threadIdx.x);
  const auto count = static_cast<int>(shape.num_experts);
  const RouterMemory m = RouterMemory::at(shape, dynamic_shared<float>());
  make_scores(shape, scores + row * shape.num_experts, m.scores, lane);
  for (int i = lane; i < count; i += kWarp) {
    m.choice[i] = bias != nullptr ? m.scores[i] + bias[i] : m.scores[i];
    m.taken[i] = 0;
  }
  __syncwarp();
  if (shape.method != Method::Greedy) exclude_groups(shape, m, lane);
  __syncwarp();
  float sum = 0.0F;
  for (int k = 0; k < static_cast<int>(shape.top_k); ++k) {
    const int best = take_best(m.choice, m.taken, count, lane);
    sum += m.scores[best];
    if (lane == 0) expert_ids[row * shape.top_k + k] = best;
  }
  const float divisor = shape.normalize ? sum + kSmallestSum : 1.0F;
  __syncwarp();  // lane 0 has written the numbers that all read
  for (int k = lane; k < static_cast<int>(shape.top_k); k += kWarp) {
    const std::int64_t place = row * shape.top_k + k;
    weights[place] = m.scores[expert_ids[place]] / divisor * shape.scaling_factor;
  }
}

}  // namespace

void route(const RouterShape& shape,
           const float* scores,
           const float* bias,
           std::int64_t rows,
           std::int32_t* expert_ids,
           float* weights,
           Stream stream) {
  GRAFT_CHECK(shape.num_groups > 0 && shape.num_experts % shape.num_groups == 0 &&
                  shape.top_k_groups <= shape.num_groups && shape.top_k <= shape.num_experts,
              shape.top_k, " of ", shape.num_experts, " experts in ", shape.num_groups, " groups");
  launch("route", route_kernel, {static_cast<unsigned>(rows), kWarp, RouterMemory::bytes(shape)},
         stream, shape, scores, bias, expert_ids, weights);
}

}  // namespace graft::cuda
