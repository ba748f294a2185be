#include "graft/kernels/cuda/linear/lora.h"

#include <algorithm>

#include <cuda_fp16.h>

#include "graft/kernels/cuda/launch.cuh"

namespace graft::kernels::cuda {
namespace {

constexpr int kMaxShrinkThreads = 256;
constexpr int kExpandThreads = 256;
// Up to here every component of the rank has a block of its own, so that a few rows use the whole
// GPU; beyond, a block reads x once for several.
constexpr std::int64_t kFewRows = 64;
constexpr int kComponents = 8;
// The limit of a grid in y and z.
constexpr std::int64_t kMaxGrid = 65535;

struct LoraBf16 {
  std::uint16_t bits;
};

__device__ float lora_value(float value) {
  return value;
}
__device__ float lora_value(__half value) {
  return __half2float(value);
}
__device__ float lora_value(LoraBf16 value) {
  return __uint_as_float(static_cast<std::uint32_t>(value.bits) << 16U);
}

template <class T>
struct alignas(4 * sizeof(T)) LoraFour {
  T values[4];
};

// The blocks of a job: of kCount components of its rank, or of kCount columns.
template <int kCount>
struct LoraBlocks {
  bool of_rank;
  __device__ std::int64_t operator()(const LoraJob& job) const {
    return ((of_rank ? job.max_rank : job.out) + kCount - 1) / kCount;
  }
};

// The job of a block of the grid's z; `block` becomes its index in the job.
template <class NumLoraBlocks>
__device__ int lora_job_of(const LoraGroup& group, std::int64_t& block, NumLoraBlocks num_blocks) {
  int job = 0;
  while (job + 1 < group.num_jobs && block >= num_blocks(group.jobs[job]))
    block -= num_blocks(group.jobs[job++]);
  return job;
}

// A thread's part of the products of x[in] with kCount rows of A from `first` on.
template <class T, int kCount>
__device__ void lora_dots(const float* x,
                          const T* a,
                          std::int64_t in,
                          std::int64_t count,
                          bool vectors,
                          float (&sums)[kCount]) {
  if (!vectors) {
    for (std::int64_t col = threadIdx.x; col < in; col += blockDim.x) {
      for (int i = 0; i < count; ++i)
        sums[i] += x[col] * lora_value(a[i * in + col]);
    }
    return;
  }
  GRAFT_UNROLL_4
  for (std::int64_t col = 4 * threadIdx.x; col < in; col += 4 * blockDim.x) {
    const float4 values = *reinterpret_cast<const float4*>(x + col);
    GRAFT_UNROLL
    for (int i = 0; i < kCount; ++i) {
      if (i >= count) continue;
      const auto factors = *reinterpret_cast<const LoraFour<T>*>(a + i * in + col);
      sums[i] = fmaf(values.x, lora_value(factors.values[0]), sums[i]);
      sums[i] = fmaf(values.y, lora_value(factors.values[1]), sums[i]);
      sums[i] = fmaf(values.z, lora_value(factors.values[2]), sums[i]);
      sums[i] = fmaf(values.w, lora_value(factors.values[3]), sums[i]);
    }
  }
}

// low = scale * A x. Block: a row, a head, and kCount components of the rank of one job.
template <int kCount>
__global__ void lora_shrink_kernel(LoraGroup group, bool vectors) {
  begin_kernel();
  const std::int64_t row = blockIdx.x;
  const std::int64_t head = blockIdx.y;
  const std::int32_t adapter = group.adapters[row];
  if (adapter < 0) return;
  std::int64_t block = blockIdx.z;
  const LoraJob& job = group.jobs[lora_job_of(group, block, LoraBlocks<kCount>{true})];
  const LoraEntry entry = job.entries[adapter];
  const std::int64_t first = block * kCount;
  if (entry.a == nullptr || first >= entry.rank) return;
  const float* x = group.x.data + row * group.x.row_stride + head * group.x.head_stride;
  const std::int64_t at = head * entry.a_head_elems + first * group.in;
  const std::int64_t count = min(static_cast<std::int64_t>(kCount), entry.rank - first);
  float sums[kCount] = {};
  switch (entry.type) {
    case LoraType::F32:
      lora_dots(x, static_cast<const float*>(entry.a) + at, group.in, count, vectors, sums);
      break;
    case LoraType::F16:
      lora_dots(x, static_cast<const __half*>(entry.a) + at, group.in, count, vectors, sums);
      break;
    case LoraType::BF16:
      lora_dots(x, static_cast<const LoraBf16*>(entry.a) + at, group.in, count, vectors, sums);
      break;
  }
  float* low = job.low + (row * group.heads + head) * job.max_rank + first;
  GRAFT_UNROLL
  for (int i = 0; i < kCount; ++i) {
    const float sum = block_sum(sums[i]);
    if (threadIdx.x == 0 && i < count) low[i] = entry.scale * sum;
  }
}

template <class T>
__device__ float lora_column(const float* low, const T* b, std::int64_t rank, std::int64_t out) {
  float sum = 0.0F;
  _Pragma("unroll 8") for (std::int64_t i = 0; i < rank; ++i) sum =
      fmaf(low[i], lora_value(b[i * out]), sum);
  return sum;
}

// y += B low. Block: a row, a head, and kExpandThreads columns of one job.
__global__ void lora_expand_kernel(LoraGroup group) {
  begin_kernel();
  const std::int64_t row = blockIdx.x;
  const std::int64_t head = blockIdx.y;
  const std::int32_t adapter = group.adapters[row];
  if (adapter < 0) return;
  std::int64_t block = blockIdx.z;
  const LoraJob& job = group.jobs[lora_job_of(group, block, LoraBlocks<kExpandThreads>{false})];
  const LoraEntry entry = job.entries[adapter];
  const std::int64_t col = block * kExpandThreads + threadIdx.x;
  if (entry.a == nullptr || col >= job.out) return;
  const float* low = job.low + (row * group.heads + head) * job.max_rank;
  const std::int64_t at = head * entry.b_head_elems + col;
  float sum = 0.0F;
  switch (entry.type) {
    case LoraType::F32:
      sum = lora_column(low, static_cast<const float*>(entry.b) + at, entry.rank, job.out);
      break;
    case LoraType::F16:
      sum = lora_column(low, static_cast<const __half*>(entry.b) + at, entry.rank, job.out);
      break;
    case LoraType::BF16:
      sum = lora_column(low, static_cast<const LoraBf16*>(entry.b) + at, entry.rank, job.out);
      break;
  }
  job.y.data[row * job.y.row_stride + head * job.y.head_stride + col] += sum;
}

// Whether four values can be loaded at once.
bool has_vectors(const LoraGroup& group) {
  return group.in % 4 == 0 && group.x.row_stride % 4 == 0 && group.x.head_stride % 4 == 0 &&
         reinterpret_cast<std::uintptr_t>(group.x.data) % 16 == 0;
}

template <int kCount>
void shrink(const LoraGroup& group, unsigned rows, unsigned heads, Stream stream) {
  std::int64_t blocks = 0;
  for (std::int64_t i = 0; i < group.num_jobs; ++i)
    blocks += ceil_div(group.jobs[i].max_rank, kCount);
  const std::int64_t threads = std::clamp<std::int64_t>(
      ceil_div(group.in, 4 * kWarpSize) * kWarpSize, kWarpSize, kMaxShrinkThreads);
  launch("lora_shrink", lora_shrink_kernel<kCount>,
         {{rows, heads, static_cast<unsigned>(blocks)}, static_cast<unsigned>(threads)}, stream,
         group, has_vectors(group));
}

}  // namespace

void add_lora(const LoraGroup& group, Stream stream) {
  std::int64_t columns = 0;
  std::int64_t max_rank = 0;
  for (std::int64_t i = 0; i < group.num_jobs; ++i) {
    const LoraJob& job = group.jobs[i];
    columns += ceil_div(job.out, kExpandThreads);
    max_rank += job.max_rank;
  }
  if (max_rank == 0) return;
  if (group.heads > kMaxGrid || columns > kMaxGrid || max_rank > kMaxGrid)
    fail("adapters: ", group.heads, " heads and ", columns, " blocks are too many for a launch");
  const auto rows = static_cast<unsigned>(group.rows);
  const auto heads = static_cast<unsigned>(group.heads);
  if (group.rows * group.heads <= kFewRows) {
    shrink<1>(group, rows, heads, stream);
  } else {
    shrink<kComponents>(group, rows, heads, stream);
  }
  launch("lora_expand", lora_expand_kernel,
         {{rows, heads, static_cast<unsigned>(columns)}, kExpandThreads}, stream, group);
}

}  // namespace graft::kernels::cuda
