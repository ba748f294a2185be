// The rings of attention_decode.cu: keys and values of a warp on their way from the KV cache to
// shared memory, in groups of 16 keys. Group i of a warp starts at position kv_begin + (i *
// kDecodeWarps + warp) * kGroupKeys and is in stage i % kStages.
//
//    16-bit types   [stages]: keys [16][dim], values [16][dim], permuted (vectors.cuh)
//    others         keys or values of one group as F16 [16][dim], as above; [stages]: codes and
//                   scales of the keys, those of the values

#pragma once

#include "graft/kernels/cuda/attention/attention.cuh"
#include "graft/kernels/cuda/attention/mma.cuh"
#include "graft/kernels/cuda/attention/vectors.cuh"

namespace graft::kernels::cuda {

inline constexpr int kDecodeWarps = 4;
inline constexpr int kGroupKeys = 16;  // the m of m16n8k16

// Keys or values of a group in F16.
template <int kHeadDim>
inline constexpr int kKeyBytes = kGroupKeys* kHeadDim * 2;

// Cache slots of a warp's groups: each of 16 lanes looks up one, a group ahead of its use.
class GroupSlots {
 public:
  __device__ GroupSlots(const AttentionJob& job, const TilePosition& at)
      : job_(job), at_(at), slot_(slot_of(0)) {}

  // Of a key of the current group; negative: none. All lanes call it.
  __device__ int of(int key) const { return __shfl_sync(kAllLanes, slot_, key); }
  __device__ int group() const { return group_; }
  __device__ void advance() { slot_ = slot_of(++group_); }

 private:
  __device__ int slot_of(int i) const {
    const auto lane = static_cast<int>(threadIdx.x % kWarpSize);
    const auto warp = static_cast<int>(threadIdx.x / kWarpSize);
    const std::int64_t position =
        at_.kv_begin + (i * kDecodeWarps + warp) * kGroupKeys + lane % kGroupKeys;
    return position < at_.kv_end ? static_cast<int>(cache_slot(job_, at_, position)) : -1;
  }

  const AttentionJob& job_;
  const TilePosition& at_;
  int group_ = 0;
  int slot_;
};

template <int kHeadDim>
class HalfRing {
 public:
  static constexpr int kStages = kHeadDim == 256 ? 2 : kHeadDim == 128 ? 3 : 4;
  static constexpr int kBytes = kStages * 2 * kKeyBytes<kHeadDim>;
  static constexpr int kBlocksPerSm = kHeadDim == 256 ? 3 : 4;  // that registers are limited for

  __device__ HalfRing(const AttentionJob& job, const TilePosition& at, std::uint32_t memory)
      : job_(job), at_(at), memory_(memory), slots_(job, at) {}

  // Starts the copies of the warp's next group.
  __device__ void copy_next() {
    const auto lane = static_cast<int>(threadIdx.x % kWarpSize);
    const std::uint32_t keys = stage(slots_.group());
    const std::uint32_t values = keys + kKeyBytes<kHeadDim>;
    constexpr int kVectors = kHeadDim / kVector;  // per row
    static_assert(kVectors == 8 || kVectors == 16 || kVectors == 32);
    const int vector = lane % kVectors;
    const bool has_key = vector * kVector < job_.shape.key_dim;
    const bool has_value = vector * kVector < job_.shape.value_dim;
    const std::int64_t key_col = at_.kv_head * job_.shape.key_dim + vector * kVector;
    const std::int64_t value_col =
        job_.shape.value_offset + at_.kv_head * job_.shape.value_dim + vector * kVector;
    const auto* cache = static_cast<const std::uint16_t*>(job_.cache);
    GRAFT_UNROLL
    for (int i = 0; i < kGroupKeys * kVectors / kWarpSize; ++i) {
      const int key = i * (kWarpSize / kVectors) + lane / kVectors;
      const int slot = slots_.of(key);
      const std::uint16_t* row = cache + std::int64_t{slot < 0 ? 0 : slot} * job_.cache_row;
      cp_async_16_or_zero(vector_address<kHeadDim>(keys, key, vector), row + key_col,
                          slot >= 0 && has_key);
      cp_async_16_or_zero(vector_address<kHeadDim>(values, key, vector), row + value_col,
                          slot >= 0 && has_value);
    }
    cp_async_commit();
    slots_.advance();
  }

  // Addresses of the keys and values of group i, after its copies.
  __device__ std::uint32_t keys(int i) const { return stage(i); }
  __device__ std::uint32_t values(int i) const { return stage(i) + kKeyBytes<kHeadDim>; }

 private:
  __device__ std::uint32_t stage(int i) const {
    return memory_ + static_cast<std::uint32_t>(i % kStages * 2 * kKeyBytes<kHeadDim>);
  }

  const AttentionJob& job_;
  const TilePosition& at_;
  std::uint32_t memory_;
  GroupSlots slots_;
};

template <class Cache, int kHeadDim>
class QuantizedRing {
 public:
  // Converting needs many warps at once: few stages leave room for more thread blocks.
  static constexpr int kStages = 2;
  static constexpr int kCodeBytes = static_cast<int>(cache_code_bytes<Cache>(kHeadDim));
  static constexpr int kScaleBytes = Cache::kHasScales ? kHeadDim / kScaleCols * 2 : 0;
  static constexpr int kPartBytes = kGroupKeys * (kCodeBytes + kScaleBytes);  // keys or values
  static constexpr int kBytes = kStages * 2 * kPartBytes + kKeyBytes<kHeadDim>;
  static constexpr int kBlocksPerSm = kHeadDim == 256 ? 2 : 4;

  __device__ QuantizedRing(const AttentionJob& job, const TilePosition& at, std::uint32_t memory)
      : job_(job),
        source_(quantized_source(job, at.kv_head)),
        memory_(memory + kKeyBytes<kHeadDim>),
        halves_(memory),
        slots_(job, at) {}

  // Starts the copies of the warp's next group.
  __device__ void copy_next() {
    const std::uint32_t keys = stage(slots_.group());
    copy(keys, source_.key_col, job_.shape.key_dim);
    copy(keys + kPartBytes, source_.value_col, job_.shape.value_dim);
    cp_async_commit();
    slots_.advance();
  }

  // Convert keys and values of group i, after its copies, in one place: all lanes call them one
  // after another.
  __device__ std::uint32_t keys(int i) const { return converted(stage(i)); }
  __device__ std::uint32_t values(int i) const { return converted(stage(i) + kPartBytes); }

 private:
  __device__ std::uint32_t stage(int i) const {
    return memory_ + static_cast<std::uint32_t>(i % kStages * 2 * kPartBytes);
  }

  __device__ void copy(std::uint32_t to, std::int64_t first_col, std::int64_t num_cols) const {
    const auto lane = static_cast<int>(threadIdx.x % kWarpSize);
    constexpr int kCopies = kCodeBytes / 16;  // of a key
    GRAFT_UNROLL
    for (int i = 0; i < kGroupKeys * kCopies / kWarpSize; ++i) {
      const int key = (i * kWarpSize + lane) / kCopies;
      const int at = lane % kCopies * 16;
      const int slot = slots_.of(key);
      cp_async_16_or_zero(to + key * kCodeBytes + at,
                          row(slot).codes + cache_code_bytes<Cache>(first_col) + at,
                          slot >= 0 && at < cache_code_bytes<Cache>(num_cols));
    }
    if constexpr (Cache::kHasScales) {
      constexpr int kScaleCopies = kScaleBytes / 4;
      constexpr int kLanes = kGroupKeys * kScaleCopies;
      GRAFT_UNROLL
      for (int i = 0; i < (kLanes + kWarpSize - 1) / kWarpSize; ++i) {
        const int index = i * kWarpSize + lane;
        const int key = index / kScaleCopies % kGroupKeys;
        const int at = index % kScaleCopies * 4;
        const int slot = slots_.of(key);
        if (index >= kLanes) continue;
        cp_async_4_or_zero(to + kGroupKeys * kCodeBytes + key * kScaleBytes + at,
                           row(slot).scales + first_col / kScaleCols * 2 + at,
                           slot >= 0 && at < num_cols / kScaleCols * 2);
      }
    }
  }

  __device__ CacheRowAt row(int slot) const {
    return cache_row_at<Cache>(source_.cache, slot < 0 ? 0 : slot, source_.cols);
  }

  __device__ std::uint32_t converted(std::uint32_t part) const {
    __syncwarp();  // all lanes have read what was there
    convert(part, halves_);
    __syncwarp();
    return halves_;
  }

  __device__ static void convert(std::uint32_t part, std::uint32_t to) {
    const auto lane = static_cast<int>(threadIdx.x % kWarpSize);
    constexpr int kVectors = kHeadDim / kVector;
    GRAFT_UNROLL
    for (int i = 0; i < kGroupKeys * kVectors / kWarpSize; ++i) {
      const int key = (i * kWarpSize + lane) / kVectors;
      const int vector = lane % kVectors;
      const std::uint32_t codes =
          part + static_cast<std::uint32_t>(key * kCodeBytes + vector * Cache::kBits);
      __half scale = {};
      if constexpr (Cache::kHasScales)
        scale =
            load_shared_half(part + static_cast<std::uint32_t>(kGroupKeys * kCodeBytes +
                                                               key * kScaleBytes + vector / 4 * 2));
      if constexpr (Cache::kBits == 8)
        store_shared(vector_address<kHeadDim>(to, key, vector),
                     Cache::halves(load_shared_pair(codes), scale));
      else
        store_shared(vector_address<kHeadDim>(to, key, vector),
                     Cache::halves(load_shared(codes), scale));
    }
  }

  const AttentionJob& job_;
  QuantizedSource source_;
  std::uint32_t memory_;
  std::uint32_t halves_;
  GroupSlots slots_;
};

template <class Cache, int kHeadDim>
using DecodeRing = std::
    conditional_t<kIsQuantizedCache<Cache>, QuantizedRing<Cache, kHeadDim>, HalfRing<kHeadDim>>;

}  // namespace graft::kernels::cuda
