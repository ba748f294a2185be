// From a row of a batch to its position, and from a position to its row of the paged cache.

#pragma once

#include "graft/kernels/cuda/attention/attention.h"
#include "graft/kernels/cuda/launch.cuh"

namespace graft::kernels::cuda {

// The sequence and the position of a row; sequence -1: padding.
struct RowPosition {
  std::int32_t sequence;
  std::int32_t position;
};

// All threads of the block must call it.
__device__ inline RowPosition find_row(const AttentionBatch& batch, std::int64_t row) {
  __shared__ RowPosition found;
  if (threadIdx.x == 0) found = {-1, -1};
  __syncthreads();
  for (std::int64_t s = threadIdx.x; s < batch.num_sequences; s += blockDim.x) {
    const std::int64_t token = row - (batch.first_rows[s] - batch.base_row);
    const std::int64_t num_tokens = batch.num_tokens[s];
    if (token < 0 || token >= num_tokens) continue;
    found = {static_cast<std::int32_t>(s),
             static_cast<std::int32_t>(batch.context_lens[s] - num_tokens + token)};
  }
  __syncthreads();
  return found;
}

// Row of the cache that holds a position of a sequence.
__device__ inline std::int64_t slot_of(const AttentionBatch& batch,
                                       std::int64_t sequence,
                                       std::int64_t position) {
  const std::int32_t* table = batch.block_tables + sequence * batch.table_stride;
  return table[position / batch.block_tokens] * batch.block_tokens + position % batch.block_tokens;
}

// Row of the cache of a packed position: those of a sequence follow those of the one before.
__device__ inline std::int64_t cache_slot_of_packed(const AttentionBatch& batch,
                                                    std::int64_t position) {
  std::int64_t sequence = 0;
  while (sequence + 1 < batch.num_sequences && position >= batch.context_lens[sequence])
    position -= batch.context_lens[sequence++];
  return slot_of(batch, sequence, position);
}

}  // namespace graft::kernels::cuda
