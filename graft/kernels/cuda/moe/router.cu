#include "graft/kernels/cuda/moe/router.h"

#include "graft/base/check.h"
#include "graft/kernels/cuda/launch.cuh"

namespace graft::kernels::cuda {
namespace {

// Keeps the sum of the selected scores from being 0, as in the models' reference code.
constexpr float kSumEpsilon = 1e-20F;

constexpr std::int64_t kMaxExperts = 32 * kWarpSize;

// A row's arrays in shared memory. Sizes: e = experts, g = groups.
struct RouterShared {
  float* scores;  // [e]
  float* choice;  // [e] score + bias, used with groups only
  int* kept;      // [g] 1: selected
  int* chosen;    // [top_k]

  static __device__ RouterShared at(const RouterShape& shape, float* memory) {
    RouterShared shared;
    shared.scores = memory;
    shared.choice = shared.scores + shape.num_experts;
    shared.kept = reinterpret_cast<int*>(shared.choice + shape.num_experts);
    shared.chosen = shared.kept + shape.num_groups;
    return shared;
  }
  static std::size_t bytes(const RouterShape& shape) {
    return static_cast<std::size_t>(2 * shape.num_experts + shape.num_groups + shape.top_k) *
           sizeof(float);
  }
};

// Orders values descending, ties by ascending index; never 0. NaN sorts below all other values.
__device__ std::uint64_t sort_key(float value, int i) {
  const std::uint32_t bits = __float_as_uint(value + 0.0F);  // maps -0 to 0
  const std::uint32_t order = bits >> 31 != 0 ? ~bits : bits | 0x80000000U;
  return static_cast<std::uint64_t>(value != value ? 1U : order) << 32 |
         (0xffffffffU - static_cast<std::uint32_t>(i));
}

// The keys of a row in the registers of a warp: lane l holds values l, l + 32 … 0: none, or popped.
template <int kExpertsPerLane>
struct WarpTopK {
  std::uint64_t keys[kExpertsPerLane];

  __device__ void set(int n, float value, int i, bool exists) {
    keys[n] = exists ? sort_key(value, i) : 0;
  }

  // Removes the largest value left and returns its index.
  __device__ int pop_max() {
    std::uint64_t best = 0;
    GRAFT_UNROLL
    for (int n = 0; n < kExpertsPerLane; ++n)
      best = keys[n] > best ? keys[n] : best;
    GRAFT_UNROLL
    for (int step = kWarpSize / 2; step > 0; step /= 2) {
      const std::uint64_t other = __shfl_xor_sync(kAllLanes, best, step);
      best = other > best ? other : best;
    }
    GRAFT_UNROLL
    for (int n = 0; n < kExpertsPerLane; ++n)
      if (keys[n] == best) keys[n] = 0;
    return static_cast<int>(0xffffffffU - static_cast<std::uint32_t>(best));
  }
};

// values[n]: logit of expert n * 32 + lane on input, its score on output.
template <int kExpertsPerLane>
__device__ void compute_scores(const RouterShape& shape,
                               int count,
                               int lane,
                               float (&values)[kExpertsPerLane]) {
  if (shape.scoring == RouterScoring::Sigmoid) {
    GRAFT_UNROLL
    for (float& value : values)
      value = 1.0F / (1.0F + expf(-value));
    return;
  }
  if (shape.scoring == RouterScoring::SqrtSoftplus) {
    GRAFT_UNROLL
    for (float& value : values)
      value = sqrtf(fmaxf(value, 0.0F) + log1pf(expf(-fabsf(value))));
    return;
  }
  float max = -INFINITY;
  GRAFT_UNROLL
  for (const float value : values)
    max = fmaxf(max, value);
  max = warp_max(max);
  float sum = 0.0F;
  GRAFT_UNROLL
  for (int n = 0; n < kExpertsPerLane; ++n) {
    values[n] = n * kWarpSize + lane < count ? expf(values[n] - max) : 0.0F;
    sum += values[n];
  }
  const float factor = 1.0F / warp_sum(sum);
  GRAFT_UNROLL
  for (float& value : values)
    value = __fmul_rn(value, factor);
}

// Score of an expert group: its best score, or for noaux_tc the sum of its best two.
__device__ float group_score(RouterMethod method, const float* scores, int count) {
  float first = -INFINITY;
  float second = -INFINITY;
  GRAFT_UNROLL_4
  for (int i = 0; i < count; ++i) {
    second = fmaxf(second, fminf(first, scores[i]));
    first = fmaxf(first, scores[i]);
  }
  return method == RouterMethod::NoauxTc && count > 1 ? first + second : first;
}

// Marks the top_k_groups best groups by shared.choice.
template <int kExpertsPerLane>
__device__ void select_groups(const RouterShape& shape, const RouterShared& shared, int lane) {
  const auto num_groups = static_cast<int>(shape.num_groups);
  const auto size = static_cast<int>(shape.num_experts / shape.num_groups);
  WarpTopK<kExpertsPerLane> groups;
  GRAFT_UNROLL
  for (int n = 0; n < kExpertsPerLane; ++n) {
    const int g = n * kWarpSize + lane;
    const bool exists = g < num_groups;
    const float score = exists ? group_score(shape.method, shared.choice + g * size, size) : 0.0F;
    groups.set(n, score, g, exists);
    if (exists) shared.kept[g] = 0;
  }
  __syncwarp();
  for (int k = 0; k < static_cast<int>(shape.top_k_groups); ++k) {
    const int best = groups.pop_max();
    if (lane == 0) shared.kept[best] = 1;
  }
  __syncwarp();
}

// Selects by the scores: chosen[top_k] are the experts with the highest scores + bias, of the best
// groups.
template <int kExpertsPerLane>
__device__ void select_experts(const RouterShape& shape,
                               const float (&values)[kExpertsPerLane],
                               const float* bias,
                               const RouterShared& shared,
                               int lane) {
  const auto count = static_cast<int>(shape.num_experts);
  const bool has_groups = shape.method != RouterMethod::Greedy;
  float choice[kExpertsPerLane];
  GRAFT_UNROLL
  for (int n = 0; n < kExpertsPerLane; ++n) {
    const int i = n * kWarpSize + lane;
    choice[n] = __fadd_rn(values[n], bias != nullptr && i < count ? bias[i] : 0.0F);
    if (has_groups && i < count) shared.choice[i] = choice[n];
  }
  __syncwarp();
  // Only experts of the selected groups stay eligible. DeepSeek-V2 (group_limited_greedy) sets the
  // others to 0 instead of -inf, so they rank last among positive scores.
  const float masked = shape.method == RouterMethod::GroupLimitedGreedy ? 0.0F : -INFINITY;
  const auto size = static_cast<int>(shape.num_experts / shape.num_groups);
  if (has_groups) select_groups<kExpertsPerLane>(shape, shared, lane);
  WarpTopK<kExpertsPerLane> experts;
  GRAFT_UNROLL
  for (int n = 0; n < kExpertsPerLane; ++n) {
    const int i = n * kWarpSize + lane;
    const bool exists = i < count;
    if (has_groups && exists && shared.kept[i / size] == 0) choice[n] = masked;
    experts.set(n, choice[n], i, exists);
  }
  for (int k = 0; k < static_cast<int>(shape.top_k); ++k) {
    const int best = experts.pop_max();
    if (lane == 0) shared.chosen[k] = best;
  }
}

// One warp per row.
template <int kExpertsPerLane>
__global__ void route_kernel(RouterShape shape,
                             const float* scores,
                             RouterChoice choice,
                             std::int32_t* expert_ids,
                             float* weights) {
  begin_kernel();
  const std::int64_t row = blockIdx.x;
  const auto lane = static_cast<int>(threadIdx.x);
  const auto count = static_cast<int>(shape.num_experts);
  const auto top_k = static_cast<int>(shape.top_k);
  const RouterShared shared = RouterShared::at(shape, dynamic_shared<float>());
  float values[kExpertsPerLane];
  GRAFT_UNROLL
  for (int n = 0; n < kExpertsPerLane; ++n) {
    const int i = n * kWarpSize + lane;
    values[n] = i < count ? scores[row * shape.num_experts + i] : -INFINITY;
  }
  compute_scores(shape, count, lane, values);
  GRAFT_UNROLL
  for (int n = 0; n < kExpertsPerLane; ++n) {
    const int i = n * kWarpSize + lane;
    if (i < count) shared.scores[i] = values[n];
  }
  if (choice.table == nullptr) {
    select_experts<kExpertsPerLane>(shape, values, choice.bias, shared, lane);
  } else {
    for (int k = lane; k < top_k; k += kWarpSize)
      shared.chosen[k] = choice.table[choice.token_ids[row] * shape.top_k + k];
  }
  __syncwarp();
  float sum = 0.0F;
  for (int k = 0; k < top_k; ++k)
    sum += shared.scores[shared.chosen[k]];
  const float divisor = shape.normalize ? sum + kSumEpsilon : 1.0F;
  for (int k = lane; k < top_k; k += kWarpSize) {
    const std::int64_t index = row * shape.top_k + k;
    expert_ids[index] = shared.chosen[k];
    weights[index] = shared.scores[shared.chosen[k]] / divisor * shape.scaling_factor;
  }
}

template <int kExpertsPerLane>
void launch_route(const RouterShape& shape,
                  const float* scores,
                  const RouterChoice& choice,
                  std::int64_t rows,
                  std::int32_t* expert_ids,
                  float* weights,
                  Stream stream) {
  launch("route", route_kernel<kExpertsPerLane>,
         {static_cast<unsigned>(rows), kWarpSize, RouterShared::bytes(shape)}, stream, shape,
         scores, choice, expert_ids, weights);
}

}  // namespace

void route(const RouterShape& shape,
           const float* scores,
           const RouterChoice& choice,
           std::int64_t rows,
           std::int32_t* expert_ids,
           float* weights,
           Stream stream) {
  GRAFT_CHECK(shape.num_experts <= kMaxExperts && shape.num_groups > 0 &&
                  shape.num_experts % shape.num_groups == 0 &&
                  shape.top_k_groups <= shape.num_groups && shape.top_k <= shape.num_experts,
              "unsupported router: top_k ", shape.top_k, ", ", shape.num_experts, " experts, ",
              shape.num_groups, " groups");
  const std::int64_t per_lane = ceil_div(shape.num_experts, kWarpSize);
  const auto function = per_lane <= 2    ? launch_route<2>
                        : per_lane <= 4  ? launch_route<4>
                        : per_lane <= 8  ? launch_route<8>
                        : per_lane <= 16 ? launch_route<16>
                                         : launch_route<32>;
  function(shape, scores, choice, rows, expert_ids, weights, stream);
}

}  // namespace graft::kernels::cuda
