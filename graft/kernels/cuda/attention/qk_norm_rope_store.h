// Prepares queries, keys and values for attention in one launch: per-head RMS norm, RoPE and the KV
// cache write. Same bits as rms_norm(), rotate() and write_cache() in sequence.

#pragma once

#include <cstdint>
#include <span>

#include "graft/kernels/cuda/attention/rope.h"
#include "graft/kernels/cuda/cache/kv_cache.h"
#include "graft/kernels/cuda/stream.h"

namespace graft::kernels::cuda {

// Heads of every row that are processed alike: the queries, the keys or the values.
struct HeadSpan {
  Rows x;  // data points to the first head of row 0
  std::int64_t num_heads = 1;
  std::int64_t size = 0;         // values per head
  std::int64_t head_stride = 0;  // floats from head to head
  const float* norm = nullptr;   // [size], RMS norm weight of each head; null: no norm
  float eps = 0.0F;
  bool rotates = false;          // RoPE on rotary_dim values …
  std::int64_t rotate_from = 0;  // … from this one of the head on
  // First column of the cache row that the heads are stored to, contiguously; x is then not
  // written. Negative: the heads are written back to x.
  std::int64_t cache_col = -1;
};

// Shared by the spans of a call.
struct HeadBatch {
  std::int64_t rows = 0;
  RopeConfig rotation;                      // rotary_dim 0: no RoPE
  const std::int32_t* positions = nullptr;  // [rows]
  CacheRows cache;
  const std::int32_t* slots = nullptr;  // [rows]; negative: the row is not stored
};

inline constexpr std::size_t kMaxHeadSpans = 3;  // queries, keys and values
inline constexpr std::int64_t kMaxHeadSize = 512;

void qk_norm_rope_store(std::span<const HeadSpan> spans, const HeadBatch& batch, Stream stream);

}  // namespace graft::kernels::cuda
