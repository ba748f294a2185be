// Attention over the paged cache: causal, grouped-query, with or without a sliding window; prompts,
// chunks of prompts behind a cached prefix and single tokens alike. Latent attention (absorbed) is
// the case of one key-value head whose values are the leading part of its keys.
//
// The rows of a sequence that share a key-value head (tokens times heads of its group) are cut into
// tiles. A long context with few tiles is also split: each part leaves a state, and a second kernel
// joins the states. How many parts there are depends on the sizes given to
// plan_attention() alone, so with sizes rounded up to buckets the launches are always the same. The
// bits of a row depend on its own context and on the plan, not on its company.

#pragma once

#include <cstddef>
#include <cstdint>

#include "graft/kernels/cuda/attention/kv_cache.h"
#include "graft/kernels/cuda/stream.h"

namespace graft::kernels::cuda {

struct AttentionShape {
  std::int64_t num_heads = 0;
  std::int64_t num_kv_heads = 0;
  std::int64_t key_dim = 0;
  std::int64_t value_dim = 0;     // at most 512
  std::int64_t value_offset = 0;  // where the values of the first head begin in a row of the cache
  std::int64_t window = 0;        // 0: none; else a token sees this many, itself included
  float scale = 1.0F;             // of the scores
  // F16: on tensor cores where GPU, cache and head sizes allow it, queries and weights of the
  // softmax being rounded to the cache's type.
  Arithmetic arithmetic = Arithmetic::F32;
};

// The sequences of a pass: sequence s has the rows from first_rows[s] on, num_tokens[s] of them (0:
// the sequence is padding), which are the last of its context_lens[s] positions. Position p is in
// block block_tables[s][p / block_tokens].
struct AttentionBatch {
  const std::int32_t* first_rows = nullptr;
  const std::int32_t* num_tokens = nullptr;
  const std::int32_t* context_lens = nullptr;
  const std::int32_t* block_tables = nullptr;
  std::int64_t table_stride = 0;
  std::int64_t block_tokens = 0;
  std::int64_t num_sequences = 0;
  std::int64_t num_rows = 0;     // of all of them, at most
  std::int64_t max_tokens = 0;   // of one, at most
  std::int64_t max_context = 0;  // likewise
};

struct AttentionPlan {
  enum class Kernel : std::uint8_t { Cores, TensorCores, FewRows, Latents };

  Kernel kernel = Kernel::Cores;
  bool many_rows = false;
  std::int64_t tile_rows = 0;
  std::int64_t num_parts = 1;
  std::int64_t part_len = 0;  // positions
  std::size_t scratch_bytes = 0;
};
AttentionPlan plan_attention(const AttentionShape& shape, const AttentionBatch& batch, DType cache);

// out[rows, num_heads * value_dim] for queries[rows, num_heads * key_dim]. Keys and values of the
// pass have been written before.
void attention(const AttentionShape& shape,
               const AttentionBatch& batch,
               const AttentionPlan& plan,
               const CacheRows& cache,
               ConstRows queries,
               Rows out,
               void* scratch,
               Stream stream);

}  // namespace graft::kernels::cuda
