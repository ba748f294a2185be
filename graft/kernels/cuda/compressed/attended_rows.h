// What a token of DeepSeek-V4's attention attends to, copied from two caches into packed rows:
// entries of a compressor, then the tokens of its window, both ascending. attention() runs over the
// packed rows, every row of the batch a sequence of its own (selected_batch() in
// attention/sparse.h).
//
// All launches depend on the batch's upper bounds only, so they can be captured.

#pragma once

#include <cstdint>

#include "graft/kernels/cuda/attention/attention.h"
#include "graft/kernels/cuda/attention/sparse.h"
#include "graft/kernels/cuda/cache/kv_cache.h"
#include "graft/kernels/cuda/stream.h"

namespace graft::kernels::cuda {

struct AttendedShape {
  std::int64_t window = 0;
  std::int64_t rate = 0;   // tokens per entry; 0: there are no entries
  std::int64_t top_k = 0;  // entries of a row at most; 0: all
};

// Upper bound of the packed rows of a row of the batch.
std::int64_t max_attended(const AttendedShape& shape, const AttentionBatch& batch);

// Both caches have rows of one type and size, and blocks of batch.block_tokens.
struct AttendedCaches {
  CacheRows tokens;
  CacheRows entries;  // unused with rate 0
};

// Row r of the range gets the slots [r m, (r + 1) m) of `to`, m = max_attended(). selected[rows of
// the batch, top_k]: the entries of an indexer, -1 after the last one; null with top_k 0.
void gather_attended(const AttendedShape& shape,
                     const AttentionBatch& batch,
                     const AttendedCaches& caches,
                     const std::int32_t* selected,
                     const SelectedRows& to,
                     RowRange rows,
                     Stream stream);

}  // namespace graft::kernels::cuda
