// What a warpgroup of attention_prefill_wgmma.cu knows of its 64 query rows: maxima and sums of the
// softmax, weights and values, in the registers of its lanes.

#pragma once

#include "graft/kernels/cuda/attention/attention.cuh"
#include "graft/kernels/cuda/attention/wgmma_products.cuh"

namespace graft::kernels::cuda {

inline constexpr int kGroupRows = 64;
inline constexpr int kTileKeys = 128;
inline constexpr int kLineBytes = 128;

// What the loops need of TilePosition, in 32 bits to save registers.
struct Bounds {
  int kv_begin;
  int kv_end;
  int num_tiles;
  int first_position;
  int group_size;

  __device__ explicit Bounds(const TilePosition& at)
      : kv_begin(static_cast<int>(at.kv_begin)),
        kv_end(static_cast<int>(at.kv_end)),
        num_tiles((kv_end - kv_begin + kTileKeys - 1) / kTileKeys),
        first_position(static_cast<int>(at.first_position)),
        group_size(static_cast<int>(at.group_size)) {}
};

using Scores = float[kTileKeys / 2];  // [8 j + 2 t + i] of rows g and g + 8: 4 j + 2 half + i
using Weights = std::uint32_t[kTileKeys / 4];  // A fragments of 16 keys each

// The rows of a lane: g and g + 8 of its warp's 16.
template <class Mma, class T>
struct Rows64 {
  float max[2] = {kNegInf, kNegInf};
  float sum[2] = {0.0F, 0.0F};  // of the lane's own keys until finish()
  float values[T::kValueDim / 2];
  Weights weights;

  __device__ void init() {
    GRAFT_UNROLL
    for (float& value : values)
      value = 0.0F;
  }

  // Starts the product; `queries` and `keys` are permuted matrices.
  static __device__ void start_scores(std::uint32_t queries, std::uint32_t keys, Scores& scores) {
    wgmma_begin();
    GRAFT_UNROLL
    for (int k = 0; k < T::kKeyDim / 16; ++k) {
      const int block = k / 4;
      const auto in_line = static_cast<std::uint32_t>(k % 4 * 32);
      wgmma_scores(Mma(),
                   wgmma_permuted_operand(queries + block * kGroupRows * kLineBytes + in_line, 0),
                   wgmma_permuted_operand(keys + block * kTileKeys * kLineBytes + in_line, 0),
                   k > 0, scores);
    }
    wgmma_commit();
  }

  __device__ void start_values(std::uint32_t from) {
    wgmma_begin();
    GRAFT_UNROLL
    for (int k = 0; k < kTileKeys / 16; ++k)
      wgmma_values(Mma(), weights + 4 * k,
                   wgmma_permuted_operand(from + k * 16 * kLineBytes, kTileKeys * kLineBytes),
                   values);
    wgmma_commit();
  }

  // Turns scores into weights of the new maxima.
  __device__ void softmax(Scores& scores, float (&correction)[2]) {
    GRAFT_UNROLL
    for (int half = 0; half < 2; ++half) {
      float new_max = max[half];
      GRAFT_UNROLL
      for (int j = 2 * half; j < kTileKeys / 2; j += 4)
        new_max = fmaxf(new_max, fmaxf(scores[j], scores[j + 1]));
      new_max = fmaxf(new_max, __shfl_xor_sync(kAllLanes, new_max, 1));
      new_max = fmaxf(new_max, __shfl_xor_sync(kAllLanes, new_max, 2));
      const float base = new_max == kNegInf ? 0.0F : new_max;
      correction[half] = fast_exp2(max[half] - base);
      max[half] = new_max;
      float row_sum = 0.0F;
      GRAFT_UNROLL
      for (int j = 2 * half; j < kTileKeys / 2; j += 4) {
        scores[j] = fast_exp2(scores[j] - base);
        scores[j + 1] = fast_exp2(scores[j + 1] - base);
        row_sum += scores[j] + scores[j + 1];
      }
      sum[half] = sum[half] * correction[half] + row_sum;
    }
  }

  // The D fragments of the scores are the A fragments of the product with the values.
  __device__ void set_weights(const Scores& scores) {
    GRAFT_UNROLL
    for (int i = 0; i < kTileKeys / 4; ++i)
      weights[i] = Mma::pack(scores[2 * i], scores[2 * i + 1]);
  }

  __device__ void rescale(const float (&correction)[2]) {
    // Most tiles leave all maxima of a warp as they were.
    if (!__any_sync(kAllLanes, correction[0] != 1.0F || correction[1] != 1.0F)) return;
    GRAFT_UNROLL
    for (int i = 0; i < T::kValueDim / 2; ++i)
      values[i] *= correction[i % 4 / 2];
  }

  __device__ void finish() {
    GRAFT_UNROLL
    for (float& row_sum : sum) {
      row_sum += __shfl_xor_sync(kAllLanes, row_sum, 1);
      row_sum += __shfl_xor_sync(kAllLanes, row_sum, 2);
    }
  }
};

// Sets the scores of keys outside the causal mask, window or split to -inf. first_flat: of the
// lane's first row
__device__ inline void mask_scores(
    const AttentionJob& job, const Bounds& bounds, int first_flat, int begin, Scores& scores) {
  const auto lane = static_cast<int>(threadIdx.x) % kWarpSize;
  GRAFT_UNROLL
  for (int half = 0; half < 2; ++half) {
    const int query = bounds.first_position + (first_flat + 8 * half) / bounds.group_size;
    const int end = (query < bounds.kv_end ? query + 1 : bounds.kv_end) - begin;
    const int first = static_cast<int>(window_begin(job.shape, query)) - begin;
    GRAFT_UNROLL
    for (int j = 0; j < kTileKeys / 8; ++j) {
      GRAFT_UNROLL
      for (int i = 0; i < 2; ++i) {
        const int key = 8 * j + lane % 4 * 2 + i;
        if (key < first || key >= end) scores[4 * j + 2 * half + i] = kNegInf;
      }
    }
  }
}

}  // namespace graft::kernels::cuda
