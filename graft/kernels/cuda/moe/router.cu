#include "graft/kernels/cuda/moe/router.h"

#include "graft/base/check.h"
#include "graft/kernels/cuda/launch.cuh"

namespace graft::kernels::cuda {
namespace {

using Method = RouterShape::Method;
using Scoring = RouterShape::Scoring;

// Keeps the sum of the chosen weights from being 0, as the models' own code does.
constexpr float kSmallestSum = 1e-20F;

constexpr std::int64_t kMaxExperts = 32 * kWarpSize;

// A row's arrays in shared memory. Sizes: e = experts, g = groups.
struct RouterMemory {
  float* scores;  // [e]
  float* choice;  // [e] what the choice goes by, where there are groups
  int* kept;      // [g] 1: one of the best
  int* chosen;    // [top_k]

  static __device__ RouterMemory at(const RouterShape& shape, float* memory) {
    RouterMemory m;
    m.scores = memory;
    m.choice = m.scores + shape.num_experts;
    m.kept = reinterpret_cast<int*>(m.choice + shape.num_experts);
    m.chosen = m.kept + shape.num_groups;
    return m;
  }
  static std::size_t bytes(const RouterShape& shape) {
    return static_cast<std::size_t>(2 * shape.num_experts + shape.num_groups + shape.top_k) *
           sizeof(float);
  }
};

// A whole number that is larger for a larger value and, of equals, for an earlier one; never 0. A
// value that is no number is smaller than all others.
__device__ std::uint64_t key_of(float value, int i) {
  const std::uint32_t bits = __float_as_uint(value + 0.0F);  // of -0 those of 0
  const std::uint32_t order = bits >> 31 != 0 ? ~bits : bits | 0x80000000U;
  return static_cast<std::uint64_t>(value != value ? 1U : order) << 32 |
         (0xffffffffU - static_cast<std::uint32_t>(i));
}

// The values of a row, in the registers of a warp: i, i + 32 … in lane i. 0: none, or taken.
template <int kPerLane>
struct Keys {
  std::uint64_t keys[kPerLane];

  __device__ void put(int n, float value, int i, bool is_there) {
    keys[n] = is_there ? key_of(value, i) : 0;
  }

  // The number of the largest value left, of equals the first.
  __device__ int take_best() {
    std::uint64_t best = 0;
    GRAFT_UNROLL
    for (int n = 0; n < kPerLane; ++n)
      best = keys[n] > best ? keys[n] : best;
    GRAFT_UNROLL
    for (int step = kWarpSize / 2; step > 0; step /= 2) {
      const std::uint64_t other = __shfl_xor_sync(kAllLanes, best, step);
      best = other > best ? other : best;
    }
    GRAFT_UNROLL
    for (int n = 0; n < kPerLane; ++n)
      if (keys[n] == best) keys[n] = 0;
    return static_cast<int>(0xffffffffU - static_cast<std::uint32_t>(best));
  }
};

// values[n]: the score of expert n * 32 + lane, of which there are `count`.
template <int kPerLane>
__device__ void make_scores(const RouterShape& shape,
                            int count,
                            int lane,
                            float (&values)[kPerLane]) {
  if (shape.scoring == Scoring::Sigmoid) {
    GRAFT_UNROLL
    for (float& value : values)
      value = 1.0F / (1.0F + expf(-value));
    return;
  }
  float max = -INFINITY;
  GRAFT_UNROLL
  for (const float value : values)
    max = fmaxf(max, value);
  max = warp_max(max);
  float sum = 0.0F;
  GRAFT_UNROLL
  for (int n = 0; n < kPerLane; ++n) {
    values[n] = n * kWarpSize + lane < count ? expf(values[n] - max) : 0.0F;
    sum += values[n];
  }
  const float factor = 1.0F / warp_sum(sum);
  GRAFT_UNROLL
  for (float& value : values)
    value = __fmul_rn(value, factor);
}

// What a group of experts is worth: its best score, or the sum of its best two.
__device__ float group_score(Method method, const float* scores, int count) {
  float first = -INFINITY;
  float second = -INFINITY;
  GRAFT_UNROLL_4
  for (int i = 0; i < count; ++i) {
    second = fmaxf(second, fminf(first, scores[i]));
    first = fmaxf(first, scores[i]);
  }
  return method == Method::NoauxTc && count > 1 ? first + second : first;
}

// Marks the best groups by what m.choice says of their experts.
template <int kPerLane>
__device__ void keep_groups(const RouterShape& shape, const RouterMemory& m, int lane) {
  const auto num_groups = static_cast<int>(shape.num_groups);
  const auto size = static_cast<int>(shape.num_experts / shape.num_groups);
  Keys<kPerLane> groups;
  GRAFT_UNROLL
  for (int n = 0; n < kPerLane; ++n) {
    const int g = n * kWarpSize + lane;
    const bool is_there = g < num_groups;
    const float score = is_there ? group_score(shape.method, m.choice + g * size, size) : 0.0F;
    groups.put(n, score, g, is_there);
    if (is_there) m.kept[g] = 0;
  }
  __syncwarp();
  for (int k = 0; k < static_cast<int>(shape.top_k_groups); ++k) {
    const int best = groups.take_best();
    if (lane == 0) m.kept[best] = 1;
  }
  __syncwarp();
}

// A warp per row.
template <int kPerLane>
__global__ void route_kernel(RouterShape shape,
                             const float* scores,
                             const float* bias,
                             std::int32_t* expert_ids,
                             float* weights) {
  const std::int64_t row = blockIdx.x;
  const auto lane = static_cast<int>(threadIdx.x);
  const auto count = static_cast<int>(shape.num_experts);
  const auto top_k = static_cast<int>(shape.top_k);
  const RouterMemory m = RouterMemory::at(shape, dynamic_shared<float>());
  float values[kPerLane];
  float biases[kPerLane] = {};
  GRAFT_UNROLL
  for (int n = 0; n < kPerLane; ++n) {
    const int i = n * kWarpSize + lane;
    values[n] = i < count ? scores[row * shape.num_experts + i] : -INFINITY;
    if (bias != nullptr && i < count) biases[n] = bias[i];
  }
  make_scores(shape, count, lane, values);
  const bool has_groups = shape.method != Method::Greedy;
  float choice[kPerLane];
  GRAFT_UNROLL
  for (int n = 0; n < kPerLane; ++n) {
    const int i = n * kWarpSize + lane;
    choice[n] = __fadd_rn(values[n], biases[n]);
    if (i < count) m.scores[i] = values[n];
    if (has_groups && i < count) m.choice[i] = choice[n];
  }
  __syncwarp();
  // Only experts of the best groups stay eligible. DeepSeek-V2 (group_limited_greedy) gives the
  // others the score 0 instead of none, so that they come last among positive scores.
  const float masked = shape.method == Method::GroupLimitedGreedy ? 0.0F : -INFINITY;
  const auto size = static_cast<int>(shape.num_experts / shape.num_groups);
  if (has_groups) keep_groups<kPerLane>(shape, m, lane);
  Keys<kPerLane> experts;
  GRAFT_UNROLL
  for (int n = 0; n < kPerLane; ++n) {
    const int i = n * kWarpSize + lane;
    const bool is_there = i < count;
    if (has_groups && is_there && m.kept[i / size] == 0) choice[n] = masked;
    experts.put(n, choice[n], i, is_there);
  }
  float sum = 0.0F;
  for (int k = 0; k < top_k; ++k) {
    const int best = experts.take_best();
    sum += m.scores[best];
    if (lane == 0) m.chosen[k] = best;
  }
  const float divisor = shape.normalize ? sum + kSmallestSum : 1.0F;
  __syncwarp();
  for (int k = lane; k < top_k; k += kWarpSize) {
    const std::int64_t place = row * shape.top_k + k;
    expert_ids[place] = m.chosen[k];
    weights[place] = m.scores[m.chosen[k]] / divisor * shape.scaling_factor;
  }
}

template <int kPerLane>
void launch_route(const RouterShape& shape,
                  const float* scores,
                  const float* bias,
                  std::int64_t rows,
                  std::int32_t* expert_ids,
                  float* weights,
                  Stream stream) {
  launch("route", route_kernel<kPerLane>,
         {static_cast<unsigned>(rows), kWarpSize, RouterMemory::bytes(shape)}, stream, shape,
         scores, bias, expert_ids, weights);
}

}  // namespace

void route(const RouterShape& shape,
           const float* scores,
           const float* bias,
           std::int64_t rows,
           std::int32_t* expert_ids,
           float* weights,
           Stream stream) {
  GRAFT_CHECK(shape.num_experts <= kMaxExperts && shape.num_groups > 0 &&
                  shape.num_experts % shape.num_groups == 0 &&
                  shape.top_k_groups <= shape.num_groups && shape.top_k <= shape.num_experts,
              shape.top_k, " of ", shape.num_experts, " experts in ", shape.num_groups, " groups");
  const std::int64_t per_lane = ceil_div(shape.num_experts, kWarpSize);
  const auto function = per_lane <= 2    ? launch_route<2>
                        : per_lane <= 4  ? launch_route<4>
                        : per_lane <= 8  ? launch_route<8>
                        : per_lane <= 16 ? launch_route<16>
                                         : launch_route<32>;
  function(shape, scores, bias, rows, expert_ids, weights, stream);
}

}  // namespace graft::kernels::cuda
