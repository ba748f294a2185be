#include "graft/kernels/cuda/sampling.h"

#include "graft/base/check.h"
#include "graft/kernels/cuda/launch.cuh"

namespace graft::kernels::cuda {
namespace {

constexpr int kThreads = 1024;
constexpr int kWarps = kThreads / kWarp;
constexpr int kBins = 256;            // of the eight bits that a round of the search looks at
static_assert(kMaxTopK == kThreads);  // a thread sorts one candidate

// Numbers in the order of the floats: larger keys for larger logits, -0 below 0, NaN of either sign
// above all.
__device__ std::uint32_t key_of(float value) {
  const std::uint32_t bits = __float_as_uint(value);
  if ((bits & 0x7fffffffU) > 0x7f800000U) return 0xffffffffU;
  return (bits & 0x80000000U) != 0 ? ~bits : bits | 0x80000000U;
}

// A logit and its token in one number that sorts as wanted: larger first, of equals the lower
// token. +0 and -0 are equals.
__device__ unsigned long long rank_of(float value, std::int64_t token) {
  const std::uint32_t key = key_of(value == 0.0F ? 0.0F : value);
  return static_cast<unsigned long long>(key) << 32 |
         (0xffffffffU - static_cast<std::uint32_t>(token));
}

__device__ std::int32_t token_of(unsigned long long rank) {
  return static_cast<std::int32_t>(0xffffffffU - static_cast<std::uint32_t>(rank));
}

__device__ unsigned long long larger(unsigned long long a, unsigned long long b) {
  return a > b ? a : b;
}

// The largest of a block; every thread gets it.
__device__ unsigned long long block_max(unsigned long long value) {
  __shared__ unsigned long long parts[kWarps];
  GRAFT_UNROLL
  for (int step = kWarp / 2; step > 0; step /= 2)
    value = larger(value, __shfl_xor_sync(kAllLanes, value, step));
  __syncthreads();
  if (threadIdx.x % kWarp == 0) parts[threadIdx.x / kWarp] = value;
  __syncthreads();
  for (int i = 0; i < kWarps; ++i)
    value = larger(value, parts[i]);
  return value;
}

__device__ unsigned long long best_of_row(const float* row, std::int64_t count) {
  unsigned long long best = 0;
  for (std::int64_t i = threadIdx.x; i < count; i += kThreads)
    best = larger(best, rank_of(row[i], i));
  return block_max(best);
}

// The same as the next kernel with one candidate, in one look at the row.
__global__ void best_kernel(ConstRows logits, std::int64_t vocab_size, Candidates out) {
  const float* row = logits.data + blockIdx.x * logits.stride;
  const std::int32_t token = token_of(best_of_row(row, vocab_size));
  if (threadIdx.x != 0) return;
  out.tokens[blockIdx.x] = token;
  out.logits[blockIdx.x] = row[token];
}

// What the search for the smallest candidate's key has found so far.
struct Search {
  std::uint32_t prefix;  // bits that are known, in their places
  int wanted;            // candidates still to be found among the keys with this prefix
};

// One round: counts the next eight bits of the keys that share the prefix, and goes to the bin that
// the last candidate falls in.
__device__ Search search_round(const float* row, std::int64_t count, Search search, int shift) {
  __shared__ int bins[kBins];
  __shared__ Search found;
  for (int i = static_cast<int>(threadIdx.x); i < kBins; i += kThreads)
    bins[i] = 0;
  __syncthreads();
  const std::uint32_t known = shift == 24 ? 0U : ~0U << (shift + 8);
  for (std::int64_t i = threadIdx.x; i < count; i += kThreads) {
    const std::uint32_t key = key_of(row[i] == 0.0F ? 0.0F : row[i]);
    if ((key & known) == search.prefix) atomicAdd(&bins[key >> shift & 255], 1);
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    int bin = kBins - 1;
    int wanted = search.wanted;
    while (bin > 0 && bins[bin] < wanted)
      wanted -= bins[bin--];
    found = {search.prefix | static_cast<std::uint32_t>(bin) << shift, wanted};
  }
  __syncthreads();
  return found;
}

// Sum over the threads before this one, and over all.
struct Before {
  int before;
  int total;
};

__device__ Before count_before(bool flag) {
  __shared__ int parts[kWarps];
  const unsigned mask = __ballot_sync(kAllLanes, flag);
  const auto lane = static_cast<int>(threadIdx.x) % kWarp;
  const auto warp = static_cast<int>(threadIdx.x) / kWarp;
  __syncthreads();
  if (lane == 0) parts[warp] = static_cast<int>(__popc(mask));
  __syncthreads();
  Before result = {static_cast<int>(__popc(mask & ((1U << lane) - 1))), 0};
  for (int i = 0; i < kWarps; ++i) {
    if (i < warp) result.before += parts[i];
    result.total += parts[i];
  }
  return result;
}

// All logits above the smallest key, and as many of that key as are wanted, the first ones. Goes
// through the row in order, so that what is kept does not depend on which thread is first.
__device__ void collect(const float* row,
                        std::int64_t count,
                        Search search,
                        unsigned long long* ranks) {
  int equal = 0;
  __shared__ int num_kept;
  if (threadIdx.x == 0) num_kept = 0;
  __syncthreads();
  for (std::int64_t begin = 0; begin < count; begin += kThreads) {
    const std::int64_t i = begin + threadIdx.x;
    const std::uint32_t key = i < count ? key_of(row[i] == 0.0F ? 0.0F : row[i]) : 0U;
    const bool is_above = i < count && key > search.prefix;
    const bool is_equal = i < count && key == search.prefix;
    bool keep = is_above;
    if (equal < search.wanted) {
      const Before equals = count_before(is_equal);
      keep = keep || (is_equal && equal + equals.before < search.wanted);
      equal += equals.total;
    }
    if (keep) ranks[atomicAdd(&num_kept, 1)] = rank_of(row[i], i);
  }
}

// Largest first, in shared memory; places past the end hold 0. Every thread has one.
__device__ void sort_ranks(unsigned long long* ranks) {
  const unsigned i = threadIdx.x;
  for (unsigned size = 2; size <= kThreads; size *= 2) {
    for (unsigned step = size / 2; step > 0; step /= 2) {
      __syncthreads();
      const unsigned other = i ^ step;
      if (other > i) {
        const bool descending = (i & size) == 0;
        const unsigned long long a = ranks[i];
        const unsigned long long b = ranks[other];
        if ((a < b) == descending) {
          ranks[i] = b;
          ranks[other] = a;
        }
      }
    }
  }
  __syncthreads();
}

// A block per row.
__global__ void top_k_kernel(ConstRows logits, std::int64_t vocab_size, int count, Candidates out) {
  __shared__ unsigned long long ranks[kThreads];
  const std::int64_t row_idx = blockIdx.x;
  const float* row = logits.data + row_idx * logits.stride;
  ranks[threadIdx.x] = 0;
  const auto kept = static_cast<int>(count < vocab_size ? count : vocab_size);
  Search search = {0U, kept};
  for (int shift = 24; shift >= 0; shift -= 8)
    search = search_round(row, vocab_size, search, shift);
  collect(row, vocab_size, search, ranks);
  sort_ranks(ranks);
  const auto place = static_cast<int>(threadIdx.x);
  if (place < count) {
    const std::int32_t token = place < kept ? token_of(ranks[place]) : -1;
    out.tokens[row_idx * count + place] = token;
    out.logits[row_idx * count + place] = token >= 0 ? row[token] : -INFINITY;
  }
}

}  // namespace

void top_k_logits(ConstRows logits,
                  std::int64_t rows,
                  std::int64_t vocab_size,
                  std::int64_t count,
                  const Candidates& out,
                  Stream stream) {
  GRAFT_CHECK(count > 0 && count <= kMaxTopK, count, " candidates");
  const LaunchShape shape = {static_cast<unsigned>(rows), kThreads};
  if (count == 1) return launch("best", best_kernel, shape, stream, logits, vocab_size, out);
  launch("top_k_logits", top_k_kernel, shape, stream, logits, vocab_size, static_cast<int>(count),
         out);
}

}  // namespace graft::kernels::cuda
