// Softmax attention without a mask in f32. A block computes some queries of one head: it goes over
// the keys in steps, with a running maximum and sum per query. Tensor cores are not used: the
// linear layers of a tower take ten times as many operations.

#include <cmath>

#include "graft/base/check.h"
#include "graft/kernels/cuda/launch.cuh"
#include "graft/kernels/cuda/vision/vision.h"

namespace graft::kernels::cuda {
namespace {

// The threads are a square: thread (y, x) has kRows queries from y * kRows on and, of each step,
// the keys x, x + kSide, and so on; of the output four columns from 4 * x on.
constexpr int kSide = 16;
constexpr int kThreads = kSide * kSide;
constexpr int kKeys = 64;  // of a step
constexpr int kKeysOfThread = kKeys / kSide;
constexpr int kPad = 4;  // floats: the rows of eight threads begin in different banks

template <int kDim, int kRows>
struct Shared {
  float q[kRows * kSide][kDim + kPad];
  float kv[kKeys][kDim + kPad];  // keys, then values
  float p[kRows * kSide][kKeys + kPad];
};

// Rows [first, first + kCount) of one head of a tile; 0 past its tokens and its head_dim.
template <int kCount, int kDim>
__device__ void load_rows(float (&to)[kCount][kDim + kPad],
                          ConstRows from,
                          std::int64_t first,
                          const VisionAttention& job) {
  const std::int64_t tile_row = blockIdx.z * job.num_tokens;
  const std::int64_t col = blockIdx.y * job.head_dim;
  for (int i = static_cast<int>(threadIdx.x); i < kCount * kDim; i += kThreads) {
    const int row = i / kDim;
    const int dim = i % kDim;
    const bool is_value = first + row < job.num_tokens && dim < job.head_dim;
    to[row][dim] = is_value ? from.data[(tile_row + first + row) * from.stride + col + dim] : 0.0F;
  }
}

__device__ float dot(float4 a, float4 b, float sum) {
  return fmaf(a.w, b.w, fmaf(a.z, b.z, fmaf(a.y, b.y, fmaf(a.x, b.x, sum))));
}

__device__ float4 multiply_add(float factor, float4 x, float4 sum) {
  return {fmaf(factor, x.x, sum.x), fmaf(factor, x.y, sum.y), fmaf(factor, x.z, sum.z),
          fmaf(factor, x.w, sum.w)};
}

// Over the kSide threads of a query.
__device__ float side_max(float value) {
  GRAFT_UNROLL
  for (int step = kSide / 2; step > 0; step /= 2)
    value = fmaxf(value, __shfl_xor_sync(kAllLanes, value, step));
  return value;
}
__device__ float side_sum(float value) {
  GRAFT_UNROLL
  for (int step = kSide / 2; step > 0; step /= 2)
    value += __shfl_xor_sync(kAllLanes, value, step);
  return value;
}

// The state of a thread's queries.
template <int kDim, int kRows>
struct Sums {
  static constexpr int kColumns = kDim / (4 * kSide);  // of four values each

  float max[kRows];
  float sum[kRows];
  float4 out[kRows][kColumns];
};

template <int kDim, int kRows>
__device__ void add_scores(Shared<kDim, kRows>& shared,
                           Sums<kDim, kRows>& sums,
                           std::int64_t first_key,
                           float scale,
                           std::int64_t num_tokens) {
  const int x = static_cast<int>(threadIdx.x) % kSide;
  const int first = static_cast<int>(threadIdx.x) / kSide * kRows;
  float scores[kRows][kKeysOfThread] = {};
  GRAFT_UNROLL_4
  for (int dim = 0; dim < kDim; dim += 4) {
    float4 keys[kKeysOfThread];
    GRAFT_UNROLL
    for (int i = 0; i < kKeysOfThread; ++i)
      keys[i] = *reinterpret_cast<const float4*>(&shared.kv[x + i * kSide][dim]);
    GRAFT_UNROLL
    for (int row = 0; row < kRows; ++row) {
      const float4 q = *reinterpret_cast<const float4*>(&shared.q[first + row][dim]);
      GRAFT_UNROLL
      for (int i = 0; i < kKeysOfThread; ++i)
        scores[row][i] = dot(q, keys[i], scores[row][i]);
    }
  }
  GRAFT_UNROLL
  for (int row = 0; row < kRows; ++row) {
    float max = sums.max[row];
    GRAFT_UNROLL
    for (int i = 0; i < kKeysOfThread; ++i) {
      const bool is_key = first_key + x + i * kSide < num_tokens;
      scores[row][i] = is_key ? scores[row][i] * scale : -INFINITY;
      max = fmaxf(max, scores[row][i]);
    }
    max = side_max(max);  // finite: every step has a key
    const float factor = expf(sums.max[row] - max);
    float sum = 0.0F;
    GRAFT_UNROLL
    for (int i = 0; i < kKeysOfThread; ++i) {
      const float p = expf(scores[row][i] - max);
      shared.p[first + row][x + i * kSide] = p;
      sum += p;
    }
    sums.max[row] = max;
    sums.sum[row] = sums.sum[row] * factor + side_sum(sum);
    GRAFT_UNROLL
    for (float4& out : sums.out[row])
      out = {out.x * factor, out.y * factor, out.z * factor, out.w * factor};
  }
}

template <int kDim, int kRows>
__device__ void add_values(const Shared<kDim, kRows>& shared, Sums<kDim, kRows>& sums) {
  const int x = static_cast<int>(threadIdx.x) % kSide;
  const int first = static_cast<int>(threadIdx.x) / kSide * kRows;
  GRAFT_UNROLL_4
  for (int key = 0; key < kKeys; ++key) {
    GRAFT_UNROLL
    for (int i = 0; i < Sums<kDim, kRows>::kColumns; ++i) {
      const float4 v = *reinterpret_cast<const float4*>(&shared.kv[key][4 * (x + i * kSide)]);
      GRAFT_UNROLL
      for (int row = 0; row < kRows; ++row)
        sums.out[row][i] = multiply_add(shared.p[first + row][key], v, sums.out[row][i]);
    }
  }
}

// Grid: (blocks of queries, heads, tiles).
template <int kDim, int kRows>
__global__ void __launch_bounds__(kThreads) vision_attend_kernel(VisionAttention job, float scale) {
  begin_kernel();
  constexpr int kQueries = kRows * kSide;
  auto& shared = *dynamic_shared<Shared<kDim, kRows>>();
  const std::int64_t first_query = static_cast<std::int64_t>(blockIdx.x) * kQueries;
  load_rows<kQueries, kDim>(shared.q, job.q, first_query, job);
  Sums<kDim, kRows> sums;
  GRAFT_UNROLL
  for (int row = 0; row < kRows; ++row) {
    sums.max[row] = -INFINITY;
    sums.sum[row] = 0.0F;
    GRAFT_UNROLL
    for (float4& out : sums.out[row])
      out = {0.0F, 0.0F, 0.0F, 0.0F};
  }
  for (std::int64_t key = 0; key < job.num_tokens; key += kKeys) {
    __syncthreads();  // the values of the step before were read
    load_rows<kKeys, kDim>(shared.kv, job.k, key, job);
    __syncthreads();
    add_scores(shared, sums, key, scale, job.num_tokens);
    __syncthreads();
    load_rows<kKeys, kDim>(shared.kv, job.v, key, job);
    __syncthreads();
    add_values(shared, sums);
  }
  const int x = static_cast<int>(threadIdx.x) % kSide;
  const int first = static_cast<int>(threadIdx.x) / kSide * kRows;
  for (int row = 0; row < kRows; ++row) {
    const std::int64_t query = first_query + first + row;
    if (query >= job.num_tokens) return;
    float* out = job.out.data + (blockIdx.z * job.num_tokens + query) * job.out.stride +
                 blockIdx.y * job.head_dim;
    GRAFT_UNROLL
    for (int i = 0; i < Sums<kDim, kRows>::kColumns; ++i) {
      const float4 sum = sums.out[row][i];
      const float values[4] = {sum.x, sum.y, sum.z, sum.w};
      GRAFT_UNROLL
      for (int k = 0; k < 4; ++k) {
        const int dim = 4 * (x + i * kSide) + k;
        if (dim < job.head_dim) out[dim] = values[k] / sums.sum[row];
      }
    }
  }
}

template <int kDim, int kRows>
void attend(const VisionAttention& job, Stream stream) {
  const dim3 grid(blocks_for(job.num_tokens, kRows * kSide), static_cast<unsigned>(job.num_heads),
                  static_cast<unsigned>(job.num_tiles));
  const float scale = 1.0F / std::sqrt(static_cast<float>(job.head_dim));
  launch_with_shared("vision_attend", vision_attend_kernel<kDim, kRows>,
                     {grid, kThreads, sizeof(Shared<kDim, kRows>)}, stream, job, scale);
}

}  // namespace

void vision_attend(const VisionAttention& job, Stream stream) {
  GRAFT_CHECK(job.head_dim <= kMaxVisionHeadDim, "heads of ", job.head_dim, " values");
  // Shared memory is less than 64 KiB, which every GPU has.
  if (job.head_dim <= 64) return attend<64, 4>(job, stream);
  attend<128, 2>(job, stream);
}

}  // namespace graft::kernels::cuda
