// Sparse attention: an indexer scores all positions of a token's context with keys of its own and
// selects the best ones; latent attention then reads only their rows of the KV cache.
//
//    index_scores      scores of all positions of some rows
//    select_positions  scores → the top_k positions of each row, ascending
//    gather_selected   the rows of the KV cache at the selected positions, packed
//    attention()       over the packed rows, every row a sequence of its own (SelectedRows::batch)
//
// Rows are those of an AttentionBatch, from its base_row on. All launches depend on the batch's
// upper bounds only, so they can be captured.

#pragma once

#include <cstdint>

#include "graft/kernels/cuda/attention/attention.h"
#include "graft/kernels/cuda/cache/kv_cache.h"
#include "graft/kernels/cuda/stream.h"

namespace graft::kernels::cuda {

struct IndexShape {
  std::int64_t num_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t top_k = 0;
  float scale = 1.0F;
  // Positions per key: key e is in the cache row of position (e + 1) * rate - 1, and rows see the
  // keys up to their own position. Above 1, keys are the entries of a compressor, and "positions"
  // below are numbers of entries.
  std::int64_t rate = 1;
};

// Rows [first, first + count) of a batch.
struct RowRange {
  std::int64_t first = 0;
  std::int64_t count = 0;
};

// x[rows, cols] = (x - mean) / sqrt(variance + eps) * weight + bias
struct LayerNorm {
  const float* weight = nullptr;  // [cols]
  const float* bias = nullptr;    // [cols]
  float eps = 1e-6F;
};
void layer_norm(Rows x, const LayerNorm& norm, std::int64_t rows, std::int64_t cols, Stream stream);

// Upper bound of the keys of a row.
inline std::int64_t max_keys(const IndexShape& shape, const AttentionBatch& batch) {
  return batch.max_context / shape.rate;
}

// scores[count, max_keys()]: scale * sum over heads of weights * max(0, q . k), for the rows
// with more than top_k positions in their context; others are not written. queries and weights:
// all rows of the batch.
void index_scores(const IndexShape& shape,
                  const AttentionBatch& batch,
                  const CacheRows& keys,
                  ConstRows queries,
                  ConstRows weights,
                  float* scores,
                  RowRange rows,
                  Stream stream);

// selected[rows of the batch, top_k]: exact, of equal scores the earlier positions; -1 after the
// last one. Rows of no sequence of the batch are not written. scores may be null when no context is
// longer than top_k.
void select_positions(const IndexShape& shape,
                      const AttentionBatch& batch,
                      const float* scores,
                      std::int32_t* selected,
                      RowRange rows,
                      Stream stream);

// The rows of the cache at the selected positions: row r of the range has the slots [r top_k,
// (r + 1) top_k) of `cache`.
struct SelectedRows {
  void* data = nullptr;            // [count * top_k, row_elems] of the cache's dtype
  std::int32_t* arrays = nullptr;  // [3 * count] first_rows, num_tokens, context_lens
};
std::size_t selected_array_bytes(std::int64_t count);

void gather_selected(std::int64_t top_k,
                     const AttentionBatch& batch,
                     const CacheRows& cache,
                     const std::int32_t* selected,
                     const SelectedRows& to,
                     RowRange rows,
                     Stream stream);

// Every row of the range as a sequence of one token; row 0 of queries and output is the first row
// of the range.
AttentionBatch selected_batch(std::int64_t top_k, const SelectedRows& rows, std::int64_t count);

}  // namespace graft::kernels::cuda
