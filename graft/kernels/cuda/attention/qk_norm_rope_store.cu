#include "graft/kernels/cuda/attention/qk_norm_rope_store.h"

#include <algorithm>

#include "graft/base/check.h"
#include "graft/kernels/cuda/attention/cache_types.cuh"
#include "graft/kernels/cuda/attention/rope.cuh"
#include "graft/kernels/cuda/rms_norm.cuh"

namespace graft::kernels::cuda {
namespace {

constexpr int kWarps = 4;
constexpr int kThreads = kWarps * kWarpSize;
constexpr int kLaneStep = 4 * kWarpSize;  // from one vector of a lane to the next
constexpr int kVectors = kMaxHeadSize / kLaneStep;
// The heads of a row are spread over blocks, each with its own cosines, until there are so many.
constexpr std::int64_t kEnoughBlocks = 1024;

struct HeadJob {
  HeadSpan spans[kMaxHeadSpans];
  bool vectors[kMaxHeadSpans];  // four values can be loaded and stored at once
  int num_heads;                // of all spans
  int line;                     // shared values of a warp
  HeadBatch batch;
};

// The vectors of a lane, and the weights of the norm for them.
struct LaneHead {
  int span;
  int head;  // of the span
  float4 values[kVectors];
  float4 weights[kVectors];
};

__device__ float* head_data(const HeadSpan& span, int head) {
  return span.x.data + blockIdx.x * span.x.stride + head * span.distance;
}

__device__ void load_head(const HeadJob& job, int head, LaneHead& to) {
  if (head >= job.num_heads) return;
  int s = 0;
  for (; head >= job.spans[s].num_heads; ++s)
    head -= static_cast<int>(job.spans[s].num_heads);
  const HeadSpan& span = job.spans[s];
  to.span = s;
  to.head = head;
  const int first = 4 * static_cast<int>(threadIdx.x % kWarpSize);
  const float* from = head_data(span, head);
  GRAFT_UNROLL
  for (int i = 0; i < kVectors; ++i) {
    to.values[i] = load_float4(from, first + i * kLaneStep, span.size, job.vectors[s]);
    if (span.norm != nullptr) {
      to.weights[i] = load_float4(span.norm, first + i * kLaneStep, span.size, job.vectors[s]);
    }
  }
}

// In the order in which one or two warps of rms_norm() add up the squares of so many values.
static_assert(norm_warps(kMaxHeadSize) == 2);
__device__ void norm_head(const HeadSpan& span, LaneHead& at) {
  float even = 0.0F;
  float odd = 0.0F;
  const bool is_split = span.size > kColsPerNormWarp;
  GRAFT_UNROLL
  for (int i = 0; i < kVectors; ++i) {
    float& sum = is_split && i % 2 != 0 ? odd : even;
    sum = add_squares(sum, at.values[i]);
  }
  even = warp_sum(even);
  if (is_split) even += warp_sum(odd);
  const float factor = inverse_rms(even, span.size, span.eps);
  GRAFT_UNROLL
  for (int i = 0; i < kVectors; ++i)
    at.values[i] = normalized(at.values[i], factor, at.weights[i]);
}

// The two values of a pair may belong to different lanes: they meet in shared memory.
__device__ void rotate_head(
    const HeadSpan& span, const Rotation& rope, const float* turns, float* line, LaneHead& at) {
  const auto half = static_cast<int>(rope.rotary_dim / 2);
  const auto lane = static_cast<int>(threadIdx.x % kWarpSize);
  auto* vectors = reinterpret_cast<float4*>(line);
  GRAFT_UNROLL
  for (int i = 0; i < kVectors; ++i) {
    if (4 * lane + i * kLaneStep < span.size) vectors[lane + i * kWarpSize] = at.values[i];
  }
  __syncwarp();
  for (int i = lane; i < half; i += kWarpSize) {
    float& a = line[first_of_pair(rope, i)];
    float& b = line[second_of_pair(rope, i, half)];
    const float2 both = turned(a, b, turns[i], turns[half + i]);
    a = both.x;
    b = both.y;
  }
  __syncwarp();
  GRAFT_UNROLL
  for (int i = 0; i < kVectors; ++i) {
    if (4 * lane + i * kLaneStep < span.size) at.values[i] = vectors[lane + i * kWarpSize];
  }
  __syncwarp();  // before the next head comes
}

template <class Cache>
__device__ void keep_four(
    typename Cache::Code* row, std::int64_t col, std::int64_t cols, bool vectors, float4 values) {
  if (col >= cols) return;
  if (vectors) {
    Cache::store_4(row + col, values);
    return;
  }
  row[col] = Cache::store(values.x);
  if (col + 1 < cols) row[col + 1] = Cache::store(values.y);
  if (col + 2 < cols) row[col + 2] = Cache::store(values.z);
  if (col + 3 < cols) row[col + 3] = Cache::store(values.w);
}

template <class Cache>
__device__ void store_head(const HeadJob& job, std::int64_t slot, const LaneHead& at) {
  const HeadSpan& span = job.spans[at.span];
  const bool vectors = job.vectors[at.span];
  const int first = 4 * static_cast<int>(threadIdx.x % kWarpSize);
  if (span.cache_col < 0) {
    float* to = head_data(span, at.head);
    GRAFT_UNROLL
    for (int i = 0; i < kVectors; ++i)
      store_float4(to, first + i * kLaneStep, span.size, vectors, at.values[i]);
    return;
  }
  if (slot < 0) return;
  const CacheRows& cache = job.batch.cache;
  auto* to = static_cast<typename Cache::Code*>(cache.data) +
             slot * (cache.key_size + cache.value_size) + span.cache_col + at.head * span.size;
  GRAFT_UNROLL
  for (int i = 0; i < kVectors; ++i)
    keep_four<Cache>(to, first + i * kLaneStep, span.size, vectors, at.values[i]);
}

// A warp per head of one row, or some of them one after the other. The first is on its way while
// the block computes the cosines.
template <class Cache>
__global__ void __launch_bounds__(kThreads) ready_heads_kernel(HeadJob job) {
  const Rotation& rope = job.batch.rotation;
  const auto half = static_cast<int>(rope.rotary_dim / 2);
  const auto warp = static_cast<int>(threadIdx.x / kWarpSize);
  auto* lines = dynamic_shared<float>();
  float* line = lines + warp * job.line;
  float* turns = lines + kWarps * job.line;
  int head = static_cast<int>(blockIdx.y) * kWarps + warp;
  LaneHead at;
  load_head(job, head, at);
  const std::int64_t slot = job.batch.slots[blockIdx.x];
  if (half > 0) make_turns(rope, job.batch.positions[blockIdx.x], half, turns);
  __syncthreads();
  while (head < job.num_heads) {
    const HeadSpan& span = job.spans[at.span];
    if (span.norm != nullptr) norm_head(span, at);
    if (span.rotates) rotate_head(span, rope, turns, line, at);
    store_head<Cache>(job, slot, at);
    head += static_cast<int>(gridDim.y) * kWarps;
    load_head(job, head, at);
  }
}

bool in_fours(const HeadSpan& span, const CacheRows& cache) {
  const bool fits_cache =
      span.cache_col < 0 || (span.cache_col % 4 == 0 && cache.row_elems() % 4 == 0);
  return span.size % 4 == 0 && span.distance % 4 == 0 && is_float4_aligned(span.x) &&
         is_float4_aligned({span.norm, 0}) && fits_cache;
}

HeadJob job_of(std::span<const HeadSpan> spans, const HeadBatch& batch) {
  GRAFT_CHECK(!spans.empty() && spans.size() <= kMaxHeadSpans, spans.size(), " spans of heads");
  HeadJob job = {.spans = {}, .vectors = {}, .num_heads = 0, .line = 0, .batch = batch};
  for (std::size_t i = 0; i < spans.size(); ++i) {
    const HeadSpan& span = spans[i];
    GRAFT_CHECK(span.size <= kMaxHeadSize, "heads of ", span.size);
    GRAFT_CHECK(!span.rotates || batch.rotation.rotary_dim <= span.size, "heads of ", span.size,
                " of which ", batch.rotation.rotary_dim, " rotate");
    job.spans[i] = span;
    job.vectors[i] = in_fours(span, batch.cache);
    job.num_heads += static_cast<int>(span.num_heads);
    if (span.rotates) job.line = std::max(job.line, static_cast<int>(ceil_div(span.size, 4)) * 4);
  }
  return job;
}

using Launch = void (*)(const HeadJob& job, Stream stream);

template <class Cache>
void launch_heads(const HeadJob& job, Stream stream) {
  const std::int64_t rows = job.batch.rows;
  const std::int64_t blocks = std::clamp<std::int64_t>(
      kEnoughBlocks / std::max<std::int64_t>(1, rows), 1, ceil_div(job.num_heads, kWarps));
  const std::int64_t floats = kWarps * job.line + job.batch.rotation.rotary_dim;
  const dim3 grid(static_cast<unsigned>(rows), static_cast<unsigned>(blocks));
  launch("qk_norm_rope_store", ready_heads_kernel<Cache>,
         {grid, kThreads, static_cast<std::size_t>(floats) * sizeof(float)}, stream, job);
}

template <class Cache>
struct Ready {
  static constexpr Launch kLaunch = launch_heads<Cache>;
};

constexpr auto kReady = cache_table<Launch, Ready>();

}  // namespace

void qk_norm_rope_store(std::span<const HeadSpan> spans, const HeadBatch& batch, Stream stream) {
  GRAFT_CHECK(is_cache_type(batch.cache.dtype), "no cache of ", name(batch.cache.dtype));
  kReady[static_cast<std::size_t>(batch.cache.dtype)](job_of(spans, batch), stream);
}

}  // namespace graft::kernels::cuda
