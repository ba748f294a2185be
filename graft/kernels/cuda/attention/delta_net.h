// The gated delta rule over recurrent states: a causal convolution, the recurrence and a gated
// norm. States are f32, so results do not depend on how the tokens of a sequence are split into
// calls.

#pragma once

#include <cstdint>

#include "graft/kernels/cuda/stream.h"

namespace graft::kernels::cuda {

struct DeltaNetShape {
  std::int64_t num_key_heads = 0;
  std::int64_t num_value_heads = 0;
  std::int64_t key_dim = 0;
  std::int64_t value_dim = 0;
  std::int64_t conv_kernel = 0;
  bool tiled_value_heads = false;  // value head h reads key head h % num_key_heads
  float eps = 0;                   // of the output's norm
};

inline constexpr std::int64_t kMaxConvKernel = 16;
inline constexpr std::int64_t kMaxDeltaKeyDim = 256;
inline constexpr int kStateCheckpoints = 2;

// One sequence of a pass, in device memory.
struct DeltaSequence {
  std::int32_t first_row = 0;
  std::int32_t num_tokens = 0;
  std::int32_t is_first = 0;  // starts from zeros
  std::int32_t slot = -1;     // -1: padding, whose output is 0
  std::int32_t checkpoint_tokens[kStateCheckpoints] = {0, 0};
  std::int32_t checkpoint_slots[kStateCheckpoints] = {-1, -1};  // -1: none
};

struct DeltaNetBatch {
  const DeltaSequence* sequences = nullptr;
  std::int64_t num_sequences = 0;
  std::int64_t num_rows = 0;
  std::int64_t max_tokens = 0;  // of a sequence
  Rows slots;                   // a row per slot: the states of all heads, then the last inputs
};

struct DeltaNetWeights {
  const float* taps = nullptr;     // [conv_kernel, channels]
  const float* decay = nullptr;    // [value heads], -exp(A_log)
  const float* dt_bias = nullptr;  // [value heads]
  const float* norm = nullptr;     // [value_dim]
};

struct DeltaNetRows {
  ConstRows qkv;  // [rows, channels]
  ConstRows z;    // [rows, value_size]
  Rows b;         // [rows, value heads], overwritten
  Rows a;         // [rows, value heads], overwritten
  Rows filtered;  // [rows, channels], scratch
  Rows out;       // [rows, value_size]
};

// key_dim is at most kMaxDeltaKeyDim, conv_kernel at most kMaxConvKernel.
void delta_net(const DeltaNetShape& shape,
               const DeltaNetBatch& batch,
               const DeltaNetWeights& weights,
               const DeltaNetRows& rows,
               Stream stream);

}  // namespace graft::kernels::cuda
