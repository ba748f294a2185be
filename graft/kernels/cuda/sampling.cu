#include "graft/kernels/cuda/sampling.h"

#include "graft/base/check.h"
#include "graft/kernels/cuda/launch.cuh"

namespace graft::kernels::cuda {
namespace {

constexpr int kThreads = 1024;
constexpr int kWarps = kThreads / kWarpSize;
constexpr int kNumBins = 256;         // one radix pass looks at 8 bits
static_assert(kMaxTopK == kThreads);  // a thread sorts one entry

// Maps a float to an unsigned integer of the same order: -0 below 0, NaN of either sign above all.
__device__ std::uint32_t order_key(float value) {
  const std::uint32_t bits = __float_as_uint(value);
  if ((bits & 0x7fffffffU) > 0x7f800000U) return 0xffffffffU;
  return (bits & 0x80000000U) != 0 ? ~bits : bits | 0x80000000U;
}

// A logit and its token in 64 bits that sort descending by logit, ties ascending by token: bits
// 63…32 order_key(logit), bits 31…0 ~token. +0 and -0 tie.
__device__ unsigned long long packed_entry(float value, std::int64_t token) {
  const std::uint32_t key = order_key(value == 0.0F ? 0.0F : value);
  return static_cast<unsigned long long>(key) << 32 |
         (0xffffffffU - static_cast<std::uint32_t>(token));
}

__device__ std::int32_t entry_token(unsigned long long entry) {
  return static_cast<std::int32_t>(0xffffffffU - static_cast<std::uint32_t>(entry));
}

__device__ unsigned long long larger(unsigned long long a, unsigned long long b) {
  return a > b ? a : b;
}

// Maximum over the block; every thread gets it.
__device__ unsigned long long block_max(unsigned long long value) {
  __shared__ unsigned long long warp_values[kWarps];
  GRAFT_UNROLL
  for (int step = kWarpSize / 2; step > 0; step /= 2)
    value = larger(value, __shfl_xor_sync(kAllLanes, value, step));
  __syncthreads();
  if (threadIdx.x % kWarpSize == 0) warp_values[threadIdx.x / kWarpSize] = value;
  __syncthreads();
  for (int i = 0; i < kWarps; ++i)
    value = larger(value, warp_values[i]);
  return value;
}

__device__ unsigned long long argmax_of_row(const float* row, std::int64_t count) {
  unsigned long long best = 0;
  for (std::int64_t i = threadIdx.x; i < count; i += kThreads)
    best = larger(best, packed_entry(row[i], i));
  return block_max(best);
}

// top_k_kernel for k = 1 in one pass over the row. One block per row.
__global__ void argmax_kernel(ConstRows logits, std::int64_t vocab_size, TopK out) {
  begin_kernel();
  const float* row = logits.data + blockIdx.x * logits.stride;
  const std::int32_t token = entry_token(argmax_of_row(row, vocab_size));
  if (threadIdx.x != 0) return;
  out.tokens[blockIdx.x] = token;
  out.logits[blockIdx.x] = row[token];
}

// Radix select of the k-th largest key: 8 bits per pass, from the top.
struct RadixState {
  std::uint32_t prefix;  // the bits found so far, in place
  int remaining;         // entries still to be found among the keys with this prefix
};

// One pass: builds a histogram of bits [shift, shift + 8) over the keys with this prefix and
// selects the bin that holds the k-th largest key.
__device__ RadixState radix_select_pass(const float* row,
                                        std::int64_t count,
                                        RadixState state,
                                        int shift) {
  __shared__ int bins[kNumBins];
  __shared__ RadixState next;
  for (int i = static_cast<int>(threadIdx.x); i < kNumBins; i += kThreads)
    bins[i] = 0;
  __syncthreads();
  const std::uint32_t known = shift == 24 ? 0U : ~0U << (shift + 8);
  for (std::int64_t i = threadIdx.x; i < count; i += kThreads) {
    const std::uint32_t key = order_key(row[i] == 0.0F ? 0.0F : row[i]);
    if ((key & known) == state.prefix) atomicAdd(&bins[key >> shift & 255], 1);
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    int bin = kNumBins - 1;
    int remaining = state.remaining;
    while (bin > 0 && bins[bin] < remaining)
      remaining -= bins[bin--];
    next = {state.prefix | static_cast<std::uint32_t>(bin) << shift, remaining};
  }
  __syncthreads();
  return next;
}

// Exclusive prefix sum of the threads' flags, and their total.
struct ScanResult {
  int exclusive;
  int total;
};

__device__ ScanResult block_scan(bool flag) {
  __shared__ int warp_values[kWarps];
  const unsigned mask = __ballot_sync(kAllLanes, flag);
  const auto lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const auto warp = static_cast<int>(threadIdx.x) / kWarpSize;
  __syncthreads();
  if (lane == 0) warp_values[warp] = static_cast<int>(__popc(mask));
  __syncthreads();
  ScanResult result = {static_cast<int>(__popc(mask & ((1U << lane) - 1))), 0};
  for (int i = 0; i < kWarps; ++i) {
    if (i < warp) result.exclusive += warp_values[i];
    result.total += warp_values[i];
  }
  return result;
}

// Collects all logits above the k-th largest key, and the first `remaining` ones equal to it. The
// row is scanned in order, so ties do not depend on thread timing.
__device__ void collect_top_k(const float* row,
                              std::int64_t count,
                              RadixState state,
                              unsigned long long* entries) {
  int num_equal = 0;
  __shared__ int num_kept;
  if (threadIdx.x == 0) num_kept = 0;
  __syncthreads();
  for (std::int64_t begin = 0; begin < count; begin += kThreads) {
    const std::int64_t i = begin + threadIdx.x;
    const std::uint32_t key = i < count ? order_key(row[i] == 0.0F ? 0.0F : row[i]) : 0U;
    const bool is_above = i < count && key > state.prefix;
    const bool is_equal = i < count && key == state.prefix;
    bool keep = is_above;
    if (num_equal < state.remaining) {
      const ScanResult scan = block_scan(is_equal);
      keep = keep || (is_equal && num_equal + scan.exclusive < state.remaining);
      num_equal += scan.total;
    }
    if (keep) entries[atomicAdd(&num_kept, 1)] = packed_entry(row[i], i);
  }
}

// Sorts entries[kThreads] in shared memory in descending order, one entry per thread; unused
// entries are 0.
__device__ void bitonic_sort(unsigned long long* entries) {
  const unsigned i = threadIdx.x;
  for (unsigned size = 2; size <= kThreads; size *= 2) {
    for (unsigned step = size / 2; step > 0; step /= 2) {
      __syncthreads();
      const unsigned other = i ^ step;
      if (other > i) {
        const bool descending = (i & size) == 0;
        const unsigned long long a = entries[i];
        const unsigned long long b = entries[other];
        if ((a < b) == descending) {
          entries[i] = b;
          entries[other] = a;
        }
      }
    }
  }
  __syncthreads();
}

// One block per row: four radix-select passes find the k-th largest key, a fifth collects the
// top-k, a bitonic sort in shared memory orders them.
__global__ void top_k_kernel(ConstRows logits, std::int64_t vocab_size, int count, TopK out) {
  begin_kernel();
  __shared__ unsigned long long entries[kThreads];
  const std::int64_t row_idx = blockIdx.x;
  const float* row = logits.data + row_idx * logits.stride;
  entries[threadIdx.x] = 0;
  const auto kept = static_cast<int>(count < vocab_size ? count : vocab_size);
  RadixState state = {0U, kept};
  for (int shift = 24; shift >= 0; shift -= 8)
    state = radix_select_pass(row, vocab_size, state, shift);
  collect_top_k(row, vocab_size, state, entries);
  bitonic_sort(entries);
  const auto thread = static_cast<int>(threadIdx.x);
  if (thread < count) {
    const std::int32_t token = thread < kept ? entry_token(entries[thread]) : -1;
    out.tokens[row_idx * count + thread] = token;
    out.logits[row_idx * count + thread] = token >= 0 ? row[token] : -INFINITY;
  }
}

}  // namespace

void top_k_logits(ConstRows logits,
                  std::int64_t rows,
                  std::int64_t vocab_size,
                  std::int64_t count,
                  const TopK& out,
                  Stream stream) {
  GRAFT_CHECK(count > 0 && count <= kMaxTopK, count, " is not a valid top-k, max ", kMaxTopK);
  const LaunchShape shape = {static_cast<unsigned>(rows), kThreads};
  if (count == 1)
    return launch("argmax_logits", argmax_kernel, shape, stream, logits, vocab_size, out);
  launch("top_k_logits", top_k_kernel, shape, stream, logits, vocab_size, static_cast<int>(count),
         out);
}

}  // namespace graft::kernels::cuda
