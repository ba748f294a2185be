// The compressor of DeepSeek-V4's attention: every `rate` tokens become one entry. The cache of
// windows has a row per token: its projection as key, its logits as value.
//
//    store_windows     projections and logits with their biases → the cache of windows
//    compress_windows  windows whose last token is a row of the batch → sums of their projections,
//                      weighted by a softmax over the tokens for each value
//
// A sum is computed from the cache alone, in an order that depends on the shape only, so its bits
// do not depend on the batch. Norm, rotation and the write to the cache of entries follow
// (attention/qk_norm_rope_store.h).

#pragma once

#include <cstdint>

#include "graft/kernels/cuda/attention/attention.h"
#include "graft/kernels/cuda/cache/kv_cache.h"
#include "graft/kernels/cuda/stream.h"

namespace graft::kernels::cuda {

struct CompressorShape {
  std::int64_t head_dim = 0;
  std::int64_t rate = 1;  // tokens per entry
  // Rows of the cache have two halves: an entry is made from the first halves of the `rate` tokens
  // before and the second halves of its own.
  bool overlaps = false;

  std::int64_t row_size() const { return overlaps ? 2 * head_dim : head_dim; }
};

// The rows of a batch; row 0 is that of the batch.
struct WindowRows {
  ConstRows projection;                 // [rows, row_size]
  ConstRows logits;                     // [rows, row_size]
  const float* bias = nullptr;          // [rate, row_size]
  const std::int32_t* slots = nullptr;  // [rows]; negative: the row is not stored
};
void store_windows(const CompressorShape& shape,
                   const AttentionBatch& batch,
                   const WindowRows& rows,
                   const CacheRows& windows,
                   Stream stream);

// sums[rows, head_dim], zeros for rows that complete no window. positions[rows]: of the window's
// first token, 0 for the others. Rows of no sequence of the batch are not written.
void compress_windows(const CompressorShape& shape,
                      const AttentionBatch& batch,
                      const CacheRows& windows,
                      Rows sums,
                      std::int32_t* positions,
                      Stream stream);

}  // namespace graft::kernels::cuda
