// Makes queries, keys and values ready for attention in one launch: norms of heads, rotations and
// the way into the cache. The bits are those of rms_norm(), rotate() and write_cache(), one after
// another.

#pragma once

#include <cstdint>
#include <span>

#include "graft/kernels/cuda/attention/kv_cache.h"
#include "graft/kernels/cuda/attention/rope.h"
#include "graft/kernels/cuda/stream.h"

namespace graft::kernels::cuda {

// Heads of every row that are treated alike.
struct HeadSpan {
  Rows x;  // data points to the first head of the first row
  std::int64_t num_heads = 1;
  std::int64_t size = 0;        // values of a head
  std::int64_t distance = 0;    // from head to head
  const float* norm = nullptr;  // [size], weight of a norm of each head; null: none
  float eps = 0.0F;
  bool rotates = false;  // its first rotary_dim values
  // Column of the cache's rows from which on the heads are stored, side by side, and nowhere else.
  // Negative: they are written to where they were.
  std::int64_t cache_col = -1;
};

// What the spans of a call share.
struct HeadBatch {
  std::int64_t rows = 0;
  Rotation rotation;                        // rotary_dim 0: nothing rotates
  const std::int32_t* positions = nullptr;  // [rows]
  CacheRows cache;
  const std::int32_t* slots = nullptr;  // [rows]; negative: the row is not kept
};

inline constexpr std::size_t kMaxHeadSpans = 3;  // queries, keys and values
inline constexpr std::int64_t kMaxHeadSize = 512;

void qk_norm_rope_store(std::span<const HeadSpan> spans, const HeadBatch& batch, Stream stream);

}  // namespace graft::kernels::cuda
