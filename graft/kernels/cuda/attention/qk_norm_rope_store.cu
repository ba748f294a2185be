#include "graft/kernels/cuda/attention/qk_norm_rope_store.h"

#include <algorithm>

#include "graft/base/check.h"
#include "graft/kernels/cuda/attention/rope.cuh"
#include "graft/kernels/cuda/cache/cache_types.cuh"
#include "graft/kernels/cuda/rms_norm.cuh"

namespace graft::kernels::cuda {
namespace {

constexpr int kWarps = 4;
constexpr int kThreads = kWarps * kWarpSize;
constexpr int kVectorStride = 4 * kWarpSize;  // values from one float4 of a lane to its next
constexpr int kVectorsPerLane = kMaxHeadSize / kVectorStride;
// The heads of a row are spread over several blocks, each computing its own cosines, up to this
// many blocks.
constexpr std::int64_t kTargetBlocks = 1024;

struct HeadJob {
  HeadSpan spans[kMaxHeadSpans];
  bool vectors[kMaxHeadSpans];  // the span is aligned for float4 access
  int num_heads;                // of all spans
  int head_stride;              // floats per warp in shared memory
  HeadBatch batch;
};

// The lane's float4 vectors of one head and of its norm weight: values 4 lane + 128 i … + 3.
struct LaneHead {
  int span;
  int head;  // index in the span
  float4 values[kVectorsPerLane];
  float4 weights[kVectorsPerLane];
};

__device__ float* head_data(const HeadSpan& span, int head) {
  return span.x.data + blockIdx.x * span.x.stride + head * span.head_stride;
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
  for (int i = 0; i < kVectorsPerLane; ++i) {
    to.values[i] = load_float4(from, first + i * kVectorStride, span.size, job.vectors[s]);
    if (span.norm != nullptr) {
      to.weights[i] = load_float4(span.norm, first + i * kVectorStride, span.size, job.vectors[s]);
    }
  }
}

// Sums the squares in the order of rms_norm() with one or two warps.
static_assert(norm_warps(kMaxHeadSize) == 2);
__device__ void norm_head(const HeadSpan& span, LaneHead& state) {
  float even = 0.0F;
  float odd = 0.0F;
  const bool is_split = span.size > kColsPerNormWarp;
  GRAFT_UNROLL
  for (int i = 0; i < kVectorsPerLane; ++i) {
    float& sum = is_split && i % 2 != 0 ? odd : even;
    sum = add_squares(sum, state.values[i]);
  }
  even = warp_sum(even);
  if (is_split) even += warp_sum(odd);
  const float factor = inverse_rms(even, span.size, span.eps);
  GRAFT_UNROLL
  for (int i = 0; i < kVectorsPerLane; ++i)
    state.values[i] = normalized(state.values[i], factor, state.weights[i]);
}

// The two values of a pair may be in different lanes, so the head goes through shared memory.
__device__ void rotate_head(const HeadSpan& span,
                            const RopeConfig& rope,
                            const float* cos_sin,
                            float* head_values,
                            LaneHead& state) {
  const auto half = static_cast<int>(rope.rotary_dim / 2);
  const auto lane = static_cast<int>(threadIdx.x % kWarpSize);
  auto* vectors = reinterpret_cast<float4*>(head_values);
  GRAFT_UNROLL
  for (int i = 0; i < kVectorsPerLane; ++i) {
    if (4 * lane + i * kVectorStride < span.size) vectors[lane + i * kWarpSize] = state.values[i];
  }
  __syncwarp();
  float* rotated_values = head_values + span.rotate_from;
  for (int i = lane; i < half; i += kWarpSize) {
    float& a = rotated_values[first_of_pair(rope, i)];
    float& b = rotated_values[second_of_pair(rope, i, half)];
    const float2 rotated = rotate_pair(a, b, cos_sin[i], cos_sin[half + i]);
    a = rotated.x;
    b = rotated.y;
  }
  __syncwarp();
  GRAFT_UNROLL
  for (int i = 0; i < kVectorsPerLane; ++i) {
    if (4 * lane + i * kVectorStride < span.size) state.values[i] = vectors[lane + i * kWarpSize];
  }
  __syncwarp();  // before the next head is stored
}

// Columns col .. col + 3 of `cols` at column `first` of a cache row; all lanes call it. Types with
// scales have heads of whole blocks, so four columns always exist.
template <class Cache>
__device__ void store_cache4(const CacheRowAt& row,
                             std::int64_t first,
                             std::int64_t col,
                             std::int64_t cols,
                             bool vectors,
                             float4 values) {
  if (Cache::kHasScales || vectors) {
    const bool exists = col < cols;
    Cache::store_4(row, first + col, exists ? values : make_float4(0, 0, 0, 0), exists);
    return;
  }
  const float four[4] = {values.x, values.y, values.z, values.w};
  GRAFT_UNROLL
  for (int i = 0; i < 4; ++i)
    Cache::store_1(row, first + col + i, four[i], col + i < cols);
}

template <class Cache>
__device__ void store_head(const HeadJob& job, std::int64_t slot, const LaneHead& state) {
  const HeadSpan& span = job.spans[state.span];
  const bool vectors = job.vectors[state.span];
  const int first = 4 * static_cast<int>(threadIdx.x % kWarpSize);
  if (span.cache_col < 0) {
    float* to = head_data(span, state.head);
    GRAFT_UNROLL
    for (int i = 0; i < kVectorsPerLane; ++i)
      store_float4(to, first + i * kVectorStride, span.size, vectors, state.values[i]);
    return;
  }
  if (slot < 0) return;
  const CacheRows& cache = job.batch.cache;
  const CacheRowAt to = cache_row_at<Cache>(cache.data, slot, cache.key_size + cache.value_size);
  const std::int64_t head_col = span.cache_col + state.head * span.size;
  GRAFT_UNROLL
  for (int i = 0; i < kVectorsPerLane; ++i)
    store_cache4<Cache>(to, head_col, first + i * kVectorStride, span.size, vectors,
                        state.values[i]);
}

// Grid: (rows, head blocks), 4 warps per block, one warp per head with a grid stride. The first
// head is in flight while the block computes the cosines. Shared memory:
//
//    head_values   [4 warps][head_stride] f32
//    cos_sin       [rotary_dim] f32, cosines then sines
template <class Cache>
__global__ void __launch_bounds__(kThreads) qk_norm_rope_store_kernel(HeadJob job) {
  begin_kernel();
  const RopeConfig& rope = job.batch.rotation;
  const auto half = static_cast<int>(rope.rotary_dim / 2);
  const auto warp = static_cast<int>(threadIdx.x / kWarpSize);
  auto* shared = dynamic_shared<float>();
  float* head_values = shared + warp * job.head_stride;
  float* cos_sin = shared + kWarps * job.head_stride;
  int head = static_cast<int>(blockIdx.y) * kWarps + warp;
  LaneHead state;
  load_head(job, head, state);
  const std::int64_t slot = job.batch.slots[blockIdx.x];
  if (half > 0) compute_cos_sin(rope, job.batch.positions[blockIdx.x], half, cos_sin);
  __syncthreads();
  while (head < job.num_heads) {
    const HeadSpan& span = job.spans[state.span];
    if (span.norm != nullptr) norm_head(span, state);
    if (span.rotates) rotate_head(span, rope, cos_sin, head_values, state);
    store_head<Cache>(job, slot, state);
    head += static_cast<int>(gridDim.y) * kWarps;
    load_head(job, head, state);
  }
}

bool is_vectorized(const HeadSpan& span, const CacheRows& cache) {
  const bool fits_cache =
      span.cache_col < 0 || (span.cache_col % 4 == 0 && cache.row_elems() % 4 == 0);
  return span.size % 4 == 0 && span.head_stride % 4 == 0 && is_float4_aligned(span.x) &&
         is_float4_aligned({span.norm, 0}) && fits_cache;
}

HeadJob make_job(std::span<const HeadSpan> spans, const HeadBatch& batch) {
  GRAFT_CHECK(!spans.empty() && spans.size() <= kMaxHeadSpans, spans.size(), " head spans, max ",
              kMaxHeadSpans);
  HeadJob job = {.spans = {}, .vectors = {}, .num_heads = 0, .head_stride = 0, .batch = batch};
  for (std::size_t i = 0; i < spans.size(); ++i) {
    const HeadSpan& span = spans[i];
    GRAFT_CHECK(span.size <= kMaxHeadSize, "head size ", span.size, " exceeds ", kMaxHeadSize);
    GRAFT_CHECK(!span.rotates || span.rotate_from + batch.rotation.rotary_dim <= span.size,
                "rotary_dim ", batch.rotation.rotary_dim, " from ", span.rotate_from,
                " on exceeds head size ", span.size);
    job.spans[i] = span;
    job.vectors[i] = is_vectorized(span, batch.cache);
    job.num_heads += static_cast<int>(span.num_heads);
    if (span.rotates)
      job.head_stride = std::max(job.head_stride, static_cast<int>(ceil_div(span.size, 4)) * 4);
  }
  return job;
}

using Launch = void (*)(const HeadJob& job, Stream stream);

template <class Cache>
void launch_heads(const HeadJob& job, Stream stream) {
  const std::int64_t rows = job.batch.rows;
  const std::int64_t blocks = std::clamp<std::int64_t>(
      kTargetBlocks / std::max<std::int64_t>(1, rows), 1, ceil_div(job.num_heads, kWarps));
  const std::int64_t floats = kWarps * job.head_stride + job.batch.rotation.rotary_dim;
  const dim3 grid(static_cast<unsigned>(rows), static_cast<unsigned>(blocks));
  launch("qk_norm_rope_store", qk_norm_rope_store_kernel<Cache>,
         {grid, kThreads, static_cast<std::size_t>(floats) * sizeof(float)}, stream, job);
}

template <class Cache>
struct HeadLauncher {
  static constexpr Launch kLaunch = launch_heads<Cache>;
};

constexpr auto kLaunches = cache_table<Launch, HeadLauncher>();

}  // namespace

void qk_norm_rope_store(std::span<const HeadSpan> spans, const HeadBatch& batch, Stream stream) {
  GRAFT_CHECK(is_cache_type(batch.cache.dtype), "unsupported KV cache dtype ",
              name(batch.cache.dtype));
  kLaunches[static_cast<std::size_t>(batch.cache.dtype)](make_job(spans, batch), stream);
}

}  // namespace graft::kernels::cuda
