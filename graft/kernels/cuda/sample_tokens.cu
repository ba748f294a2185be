// Samples one token per row of logits.
//
// A cluster of 8 thread blocks has a row, each block a contiguous slice of the vocabulary in its
// shared memory; without clusters (before sm_90, or for huge vocabularies) one block has the row in
// scratch memory. A logit becomes a 32-bit key, linear in its exponent (logit - max) / temperature,
// 0 for masked tokens; the weight of a token follows from its key:
//
//    exponent   -27.7 … 0
//    key        1 … 2^32 - 1
//    weight     0 … 2^40, exp(exponent) rounded down
//
// Top-k and top-p find the lowest key that is kept by a radix search over histograms of counts or
// weights, 11, 11 and 10 bits at a time; the linear keys spread over the bins. Ties at the lowest
// key go to the lower tokens. The draw is a weight: the token at which the running sum of kept
// weights, by ascending id, exceeds it.

#include "graft/kernels/cuda/sample_tokens.h"

#include "graft/kernels/cuda/cluster.cuh"
#include "graft/kernels/cuda/launch.cuh"
#include "graft/kernels/cuda/logit_order.cuh"

namespace graft::kernels::cuda {
namespace {

// Unrolled, the addresses of all ranks would not fit into registers.
#define GRAFT_ROLLED _Pragma("unroll 1")

using U64 = unsigned long long;

constexpr int kThreads = 512;
constexpr int kWarps = kThreads / kWarpSize;
constexpr int kMaxCluster = 8;
constexpr int kBins = 2048;
constexpr int kBinsPerThread = kBins / kThreads;
constexpr double kMinExponent = -27.7;  // its weight rounds down to 0
constexpr double kKeysPerUnit = 4294967294.0 / -kMinExponent;
constexpr float kOne = 1099511627776.0F;  // 2^40, the weight of the most likely token

// A histogram of weights has 3 counters of 14 bits per weight: sums of 2^18 fit into 32 bits, whose
// atomic additions shared memory has instructions for.
constexpr int kParts = 3;
constexpr int kPartBits = 14;

// The kept tokens: keys above `key`, and the first num_ties tokens with this key. weight: of all.
struct Kept {
  std::uint32_t key = 0;
  int num_ties = 0;
  U64 weight = 0;
};

// A part of the vocabulary: the tokens of a warp.
struct Segment {
  U64 weight = 0;  // of the keys above the lowest
  int num_ties = 0;
};

struct Shared {
  std::uint32_t bins[kParts][kBins];
  U64 warp_values[kWarps];
  U64 block_value;  // read by the other blocks of the cluster
  struct {
    int bin;
    U64 remaining;
  } threshold;
  Segment segments[kWarps];                    // read by the other blocks
  Segment all_segments[kMaxCluster * kWarps];  // of the cluster, by token
  struct {
    int segment;
    U64 weight;       // of the draw, from the segment's first token
    int ties_before;  // in earlier segments
  } draw;
};

struct Job {
  ConstRows logits;
  std::int64_t vocab_size = 0;
  int slice = 0;  // tokens of a thread block
  SamplingJob sampling;
  std::uint32_t* scratch = nullptr;  // [rows, slice]; null: keys are in shared memory
};

__device__ U64 weight_of(std::uint32_t key) {
  if (key == 0) return 0;
  const double exponent = (key - 1U) / kKeysPerUnit + kMinExponent;
  return static_cast<U64>(expf(static_cast<float>(exponent)) * kOne);
}

__device__ U64 warp_scan(U64 value) {
  const auto lane = static_cast<int>(threadIdx.x) % kWarpSize;
  GRAFT_UNROLL
  for (int step = 1; step < kWarpSize; step *= 2) {
    const U64 below = __shfl_up_sync(kAllLanes, value, step);
    if (lane >= step) value += below;
  }
  return value;
}

__device__ int warp_scan(int value) {
  return static_cast<int>(warp_scan(static_cast<U64>(value)));
}

// The row of a cluster. All threads call all functions.
template <int kCluster>
class Row {
 public:
  __device__ Row(const Job& job, Shared& shared)
      : shared_(shared),
        logits_(job.logits.data + blockIdx.y * job.logits.stride),
        sampling_(job.sampling.rows[blockIdx.y]),
        edits_(job.sampling.edits + sampling_.first_edit),
        mask_(sampling_.first_mask < 0 ? nullptr : job.sampling.masks + sampling_.first_mask),
        first_(static_cast<int>(block_rank<kCluster>()) * job.slice),
        count_(min(job.slice, max(static_cast<int>(job.vocab_size) - first_, 0))),
        keys_(job.scratch == nullptr ? dynamic_shared<std::uint32_t>()
                                     : job.scratch + std::int64_t{blockIdx.y} * job.slice) {}

  __device__ bool is_greedy() const { return sampling_.temperature == 0.0F; }

  // The bits of the edited logits.
  __device__ void load() {
    for (int i = thread(); i < count_; i += kThreads) {
      const bool is_masked = sampling_.masks_unedited != 0 || !is_allowed(first_ + i);
      keys_[i] = __float_as_uint(is_masked ? -INFINITY : logits_[first_ + i]);
    }
    __syncthreads();
    for (int i = thread(); i < sampling_.num_edits; i += kThreads) {
      const LogitEdit edit = edits_[i];
      const int at = edit.token - first_;
      if (at < 0 || at >= count_ || !is_allowed(edit.token)) continue;
      float logit = logits_[edit.token] + edit.bias;
      logit = logit > 0.0F ? logit / edit.repetition : logit * edit.repetition;
      keys_[at] = __float_as_uint(logit - edit.penalty);
    }
    __syncthreads();
  }

  // The most likely token with its logit.
  __device__ U64 find_best() {
    U64 best = 0;
    for (int i = thread(); i < count_; i += kThreads)
      best = max(best, packed_entry(__uint_as_float(keys_[i]), first_ + i));
    GRAFT_UNROLL
    for (int step = kWarpSize / 2; step > 0; step /= 2)
      best = max(best, __shfl_xor_sync(kAllLanes, best, step));
    if (lane() == 0) shared_.warp_values[warp()] = best;
    __syncthreads();
    if (thread() == 0) {
      for (int i = 1; i < kWarps; ++i)
        best = max(best, shared_.warp_values[i]);
      shared_.block_value = best;
    }
    sync_cluster<kCluster>();
    best = shared_.block_value;
    for (int rank = 0; rank < kCluster; ++rank)
      best = max(best, remote<kCluster>(shared_.block_value, rank));
    sync_cluster<kCluster>();
    return best;
  }

  __device__ void make_keys(float max_logit) {
    const double temperature = sampling_.temperature;
    double min_exponent = kMinExponent;
    if (sampling_.min_p > 0.0F)
      min_exponent = fmax(min_exponent, log(static_cast<double>(sampling_.min_p)));
    for (int i = thread(); i < count_; i += kThreads) {
      const double exponent =
          (static_cast<double>(__uint_as_float(keys_[i])) - max_logit) / temperature;
      keys_[i] = exponent >= min_exponent
                     ? static_cast<std::uint32_t>((exponent - kMinExponent) * kKeysPerUnit) + 1U
                     : 0U;
    }
    __syncthreads();
  }

  __device__ Kept filter() {
    Kept kept = {0, 0, 0};
    if (sampling_.top_k > 0) {
      const Threshold threshold = search<false>(kept, static_cast<U64>(sampling_.top_k));
      kept = {threshold.key, static_cast<int>(threshold.remaining), 0};
    }
    kept.weight = weight_above(kept.key) + kept.num_ties * weight_of(kept.key);
    if (sampling_.top_p >= 1.0) return kept;
    const double wanted = ceil(sampling_.top_p * static_cast<double>(kept.weight));
    const U64 target = min(max(static_cast<U64>(wanted), U64{1}), kept.weight);
    const Threshold threshold = search<true>(kept, target);
    const U64 each = weight_of(threshold.key);
    const U64 num_ties = (threshold.remaining + each - 1) / each;
    return {threshold.key, static_cast<int>(num_ties),
            target - threshold.remaining + num_ties * each};
  }

  __device__ void draw(const Kept& kept, std::int32_t* token) {
    U64 weight = static_cast<U64>(sampling_.draw * static_cast<double>(kept.weight));
    weight = min(weight, kept.weight - 1);
    const int length = segment_length();
    sum_segment(kept, length);
    sync_cluster<kCluster>();
    if (thread() < kCluster * kWarps)
      shared_.all_segments[thread()] =
          remote<kCluster>(shared_.segments[thread() % kWarps], thread() / kWarps);
    sync_cluster<kCluster>();
    if (warp() == 0) find_segment(kept, weight);
    __syncthreads();
    const int segment = shared_.draw.segment - static_cast<int>(block_rank<kCluster>()) * kWarps;
    if (warp() == segment) find_token(kept, warp() * length, token);
  }

 private:
  // The lowest kept key, and what of the target is left for the tokens that have it.
  struct Threshold {
    std::uint32_t key;
    U64 remaining;
  };

  __device__ static int thread() { return static_cast<int>(threadIdx.x); }
  __device__ static int lane() { return static_cast<int>(threadIdx.x) % kWarpSize; }
  __device__ static int warp() { return static_cast<int>(threadIdx.x) / kWarpSize; }

  __device__ bool is_allowed(int token) const {
    return mask_ == nullptr || (mask_[token / 32] >> token % 32 & 1U) != 0;
  }

  // The key at which the tokens of `kept`, from the most likely down, reach the target: a number of
  // tokens or a weight. {0, 0} when all of them do not.
  template <bool kWeights>
  __device__ Threshold search(const Kept& kept, U64 target) {
    Threshold found = {0, target};
    int shift = 32;
    for (const int bits : {11, 11, 10}) {
      const std::uint32_t known = shift == 32 ? 0U : ~0U << shift;
      shift -= bits;
      count_bins<kWeights>(kept, found.key, known, shift, (1U << bits) - 1U);
      if (!find_threshold<kWeights>(found.remaining)) return {0, 0};
      found.key |= static_cast<std::uint32_t>(shared_.threshold.bin) << shift;
      found.remaining = shared_.threshold.remaining;
      sync_cluster<kCluster>();  // all blocks have read the bins
    }
    return found;
  }

  // The histogram of the kept keys whose `known` bits are those of `prefix`.
  template <bool kWeights>
  __device__ void count_bins(
      const Kept& kept, std::uint32_t prefix, std::uint32_t known, int shift, std::uint32_t mask) {
    for (int i = thread(); i < kBins; i += kThreads) {
      for (int part = 0; part < (kWeights ? kParts : 1); ++part)
        shared_.bins[part][i] = 0;
    }
    __syncthreads();
    const auto add = [&](std::uint32_t key, U64 weight) {
      const std::uint32_t bin = key >> shift & mask;
      for (int part = 0; part < (kWeights ? kParts : 1); ++part) {
        const U64 bits = weight >> part * kPartBits & ((1U << kPartBits) - 1U);
        atomicAdd(&shared_.bins[part][bin], static_cast<std::uint32_t>(kWeights ? bits : weight));
      }
    };
    for (int i = thread(); i < count_; i += kThreads) {
      const std::uint32_t key = keys_[i];
      if (key <= kept.key || (key & known) != prefix) continue;
      add(key, kWeights ? weight_of(key) : 1);
    }
    // The ties are counted once in the row.
    if (kWeights && block_rank<kCluster>() == 0 && (kept.key & known) == prefix) {
      const U64 each = weight_of(kept.key);
      for (int i = thread(); i < kept.num_ties; i += kThreads)
        add(kept.key, each);
    }
    sync_cluster<kCluster>();
  }

  // The highest bin at which the sum from the top reaches `target`, in shared_.threshold. A thread
  // has kBinsPerThread bins, thread 0 the highest.
  template <bool kWeights>
  __device__ bool find_threshold(U64 target) {
    if (thread() == 0) shared_.threshold.bin = -1;
    U64 values[kBinsPerThread] = {};
    GRAFT_ROLLED
    for (int rank = 0; rank < kCluster; ++rank) {
      GRAFT_UNROLL
      for (int i = 0; i < kBinsPerThread; ++i) {
        const int bin = kBins - 1 - (thread() * kBinsPerThread + i);
        for (int part = 0; part < (kWeights ? kParts : 1); ++part)
          values[i] += static_cast<U64>(remote<kCluster>(shared_.bins[part][bin], rank))
                       << part * kPartBits;
      }
    }
    U64 sum = 0;
    GRAFT_UNROLL
    for (const U64 value : values)
      sum += value;
    const U64 in_warp = warp_scan(sum);
    if (lane() == kWarpSize - 1) shared_.warp_values[warp()] = in_warp;
    __syncthreads();
    U64 above = in_warp - sum;
    for (int i = 0; i < warp(); ++i)
      above += shared_.warp_values[i];
    GRAFT_UNROLL
    for (int i = 0; i < kBinsPerThread; ++i) {
      if (above < target && target <= above + values[i]) {
        shared_.threshold.bin = kBins - 1 - (thread() * kBinsPerThread + i);
        shared_.threshold.remaining = target - above;
      }
      above += values[i];
    }
    __syncthreads();
    return shared_.threshold.bin >= 0;
  }

  __device__ U64 weight_above(std::uint32_t key) {
    U64 sum = 0;
    for (int i = thread(); i < count_; i += kThreads)
      sum += keys_[i] > key ? weight_of(keys_[i]) : 0;
    sum = warp_scan(sum);
    __syncthreads();
    if (lane() == kWarpSize - 1) shared_.warp_values[warp()] = sum;
    __syncthreads();
    if (thread() == 0) {
      sum = 0;
      for (int i = 0; i < kWarps; ++i)
        sum += shared_.warp_values[i];
      shared_.block_value = sum;
    }
    sync_cluster<kCluster>();
    sum = 0;
    for (int rank = 0; rank < kCluster; ++rank)
      sum += remote<kCluster>(shared_.block_value, rank);
    sync_cluster<kCluster>();
    return sum;
  }

  // Tokens of a warp, a multiple of its size.
  __device__ int segment_length() const { return (count_ + kThreads - 1) / kThreads * kWarpSize; }

  __device__ void sum_segment(const Kept& kept, int length) {
    Segment segment = {0, 0};
    const int end = min((warp() + 1) * length, count_);
    for (int i = warp() * length + lane(); i < end; i += kWarpSize) {
      const std::uint32_t key = keys_[i];
      if (key > kept.key) segment.weight += weight_of(key);
      if (key == kept.key && key > 0) ++segment.num_ties;
    }
    segment.weight = warp_scan(segment.weight);
    segment.num_ties = warp_scan(segment.num_ties);
    if (lane() == kWarpSize - 1) shared_.segments[warp()] = segment;
  }

  // One warp: the segment in which the running sum exceeds `weight`.
  __device__ void find_segment(const Kept& kept, U64 weight) {
    constexpr int kSegments = kCluster * kWarps;
    constexpr int kPerLane = (kSegments + kWarpSize - 1) / kWarpSize;
    Segment mine[kPerLane];
    int num_ties = 0;
    GRAFT_UNROLL
    for (int i = 0; i < kPerLane; ++i) {
      const int at = lane() * kPerLane + i;
      mine[i] = at < kSegments ? shared_.all_segments[at] : Segment{0, 0};
      num_ties += mine[i].num_ties;
    }
    int ties_before = warp_scan(num_ties) - num_ties;
    const U64 each = weight_of(kept.key);
    const auto kept_weight = [&](const Segment& segment, int before) {
      const int num_kept = min(max(kept.num_ties - before, 0), segment.num_ties);
      return segment.weight + num_kept * each;
    };
    U64 sum = 0;
    int before = ties_before;
    GRAFT_UNROLL
    for (int i = 0; i < kPerLane; ++i) {
      sum += kept_weight(mine[i], before);
      before += mine[i].num_ties;
    }
    U64 below = warp_scan(sum) - sum;
    GRAFT_UNROLL
    for (int i = 0; i < kPerLane; ++i) {
      const U64 end = below + kept_weight(mine[i], ties_before);
      if (below <= weight && weight < end) {
        shared_.draw.segment = lane() * kPerLane + i;
        shared_.draw.weight = weight - below;
        shared_.draw.ties_before = ties_before;
      }
      below = end;
      ties_before += mine[i].num_ties;
    }
  }

  // One warp, in its segment from `begin` on.
  __device__ void find_token(const Kept& kept, int begin, std::int32_t* token) {
    U64 weight = shared_.draw.weight;
    int ties = shared_.draw.ties_before;
    for (int i = begin; i < count_; i += kWarpSize) {
      const std::uint32_t key = i + lane() < count_ ? keys_[i + lane()] : 0;
      const bool is_tie = key == kept.key && key > 0;
      const unsigned tie_mask = __ballot_sync(kAllLanes, is_tie);
      const int rank = ties + __popc(tie_mask & ((1U << lane()) - 1U));
      const bool is_kept = key > kept.key || (is_tie && rank < kept.num_ties);
      const U64 sum = warp_scan(is_kept ? weight_of(key) : 0);
      const unsigned beyond = __ballot_sync(kAllLanes, sum > weight);
      if (beyond != 0) {
        if (lane() == 0) *token = first_ + i + __ffs(static_cast<int>(beyond)) - 1;
        return;
      }
      weight -= __shfl_sync(kAllLanes, sum, kWarpSize - 1);
      ties += __popc(tie_mask);
    }
  }

  Shared& shared_;
  const float* logits_;
  RowSampling sampling_;
  const LogitEdit* edits_;
  const std::uint32_t* mask_;  // null: all tokens are allowed
  int first_;                  // token of the slice
  int count_;
  std::uint32_t* keys_;  // of the slice; before make_keys() the bits of the logits
};

// Grid [kCluster, rows].
template <int kCluster>
__global__ void __launch_bounds__(kThreads) sample_tokens_kernel(Job job) {
  begin_kernel();
  __shared__ Shared shared;
  Row<kCluster> row(job, shared);
  std::int32_t* token = job.sampling.tokens + blockIdx.y;
  row.load();
  const U64 best = row.find_best();
  const float max_logit = entry_value(best);
  const bool is_first = threadIdx.x == 0 && block_rank<kCluster>() == 0;
  if (!isfinite(max_logit) || row.is_greedy()) {
    if (is_first) *token = isfinite(max_logit) ? entry_token(best) : -1;
    return;
  }
  row.make_keys(max_logit);
  row.draw(row.filter(), token);
}

__global__ void resolve_tokens_kernel(std::int32_t* ids,
                                      std::int64_t count,
                                      const std::int32_t* tokens) {
  begin_kernel();
  const std::int64_t i = global_thread();
  if (i >= count || ids[i] >= 0) return;
  const std::int32_t token = tokens[-1 - ids[i]];
  ids[i] = token >= 0 ? token : 0;
}

int slice_of(std::int64_t vocab_size, int cluster) {
  return static_cast<int>(ceil_div(vocab_size, cluster));
}

std::size_t slice_bytes(std::int64_t vocab_size) {
  return static_cast<std::size_t>(slice_of(vocab_size, kMaxCluster)) * sizeof(std::uint32_t);
}

// Whether a row fits into the shared memory of a cluster.
bool uses_cluster(std::int64_t vocab_size) {
  return slice_bytes(vocab_size) + sizeof(Shared) <= max_shared_bytes() &&
         is_compiled_for(90, sample_tokens_kernel<kMaxCluster>);
}

}  // namespace

std::size_t sample_tokens_bytes(std::int64_t rows, std::int64_t vocab_size) {
  if (uses_cluster(vocab_size)) return 0;
  return static_cast<std::size_t>(rows * vocab_size) * sizeof(std::uint32_t);
}

void sample_tokens(ConstRows logits,
                   std::int64_t rows,
                   std::int64_t vocab_size,
                   const SamplingJob& job,
                   void* scratch,
                   Stream stream) {
  const auto num_rows = static_cast<unsigned>(rows);
  Job made = {.logits = logits, .vocab_size = vocab_size, .sampling = job};
  if (uses_cluster(vocab_size)) {
    made.slice = slice_of(vocab_size, kMaxCluster);
    return launch_with_shared("sample_tokens", sample_tokens_kernel<kMaxCluster>,
                              {.grid = {kMaxCluster, num_rows, 1},
                               .block = kThreads,
                               .shared_bytes = slice_bytes(vocab_size),
                               .cluster = kMaxCluster},
                              stream, made);
  }
  made.slice = slice_of(vocab_size, 1);
  made.scratch = static_cast<std::uint32_t*>(scratch);
  launch("sample_tokens", sample_tokens_kernel<1>, {.grid = {1, num_rows, 1}, .block = kThreads},
         stream, made);
}

void resolve_tokens(std::int32_t* ids,
                    std::int64_t count,
                    const std::int32_t* tokens,
                    Stream stream) {
  constexpr int kResolveThreads = 128;
  launch("resolve_tokens", resolve_tokens_kernel,
         {blocks_for(count, kResolveThreads), kResolveThreads}, stream, ids, count, tokens);
}

}  // namespace graft::kernels::cuda
