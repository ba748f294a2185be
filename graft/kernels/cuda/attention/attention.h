// Attention over the paged KV cache: causal, grouped-query, with an optional sliding window;
// prompts, prompt chunks after a cached prefix and decode tokens in one batch. Multi-head latent
// attention (mla.h) is the case of one KV head whose values are the leading columns of its keys
// (absorbed), or attends to keys and values that were computed for the pass (expanded).
//
// A sequence's query rows for one KV head (tokens × heads of the head group) are cut into tiles,
// one block per tile and KV head. When there are few tiles and a long context, the context is also
// cut into KV splits: each split leaves a partial softmax state, and a second kernel merges the
// states. The plan depends only on the sizes passed to plan_attention(), so with sizes rounded up
// to buckets the launches are always the same. The bits of a row depend on its own context and the
// plan, not on the batch composition; those of a decode row of Kernel::Decode on its context only.

#pragma once

#include <cstddef>
#include <cstdint>

#include "graft/kernels/cuda/cache/kv_cache.h"
#include "graft/kernels/cuda/stream.h"

namespace graft::kernels::cuda {

struct AttentionShape {
  std::int64_t num_heads = 0;
  std::int64_t num_kv_heads = 0;
  std::int64_t key_dim = 0;
  std::int64_t value_dim = 0;     // at most 512
  std::int64_t value_offset = 0;  // column of the first head's values in a cache row
  std::int64_t window = 0;        // sliding window in tokens, including the query; 0: none
  std::int64_t chunk = 0;         // a query sees its own chunk of this many positions; 0: all
  float scale = 1.0F;             // softmax scale of q · k
  // F16: tensor cores where GPU, cache dtype and head dims allow it; queries and softmax weights
  // are rounded to the cache dtype.
  Arithmetic arithmetic = Arithmetic::F32;
  // [num_heads] logits of the attention sinks, in the memory of the device: each joins the sum of
  // its head's softmax once and has no value. Null: none.
  const float* sinks = nullptr;
};

// The sequences of a pass. Sequence s owns rows [first_rows[s], first_rows[s] + num_tokens[s]), the
// last of its context_lens[s] positions; num_tokens 0: the sequence is padding. Position p is
// stored in block block_tables[s][p / block_tokens].
struct AttentionBatch {
  const std::int32_t* first_rows = nullptr;    // [num_sequences]
  const std::int32_t* num_tokens = nullptr;    // [num_sequences]
  const std::int32_t* context_lens = nullptr;  // [num_sequences]
  // [num_sequences, table_stride]; null: slots are packed, those of a sequence follow those of the
  // one before
  const std::int32_t* block_tables = nullptr;
  std::int64_t table_stride = 0;
  std::int64_t block_tokens = 0;
  std::int64_t num_sequences = 0;
  std::int64_t base_row = 0;     // of first_rows, that is row 0 of queries and output
  std::int64_t num_rows = 0;     // upper bound over the batch, from base_row on
  std::int64_t max_tokens = 0;   // upper bound per sequence
  std::int64_t max_context = 0;  // upper bound per sequence, in positions
};

// How contexts are cut into KV splits. Depends on the sequence's own context, not on the batch.
struct SplitRule {
  std::int64_t max_unsplit = 0;  // contexts of up to this many positions are one split
  std::int64_t min_len = 0;      // positions per split of longer ones; more for very long ones
};

struct AttentionPlan {
  enum class Kernel : std::uint8_t {
    Simt,     // f32 on CUDA cores, every shape
    Mma,      // tensor cores, head dims up to 128
    Decode,   // tensor cores, few query rows per KV head
    Prefill,  // tensor cores, many query rows per KV head
    Mla,      // tensor cores, absorbed latent attention
  };

  Kernel kernel = Kernel::Simt;
  bool uses_wgmma = false;  // Kernel::Prefill on sm_90
  bool large_tile = false;  // the kernel's tile of many query rows, else its small one
  std::int64_t tile_rows = 0;
  std::int64_t num_splits = 1;  // at most, of a sequence
  SplitRule splits;
  std::size_t scratch_bytes = 0;
};
AttentionPlan plan_attention(const AttentionShape& shape, const AttentionBatch& batch, DType cache);

// out[rows, num_heads * value_dim] f32 for queries[rows, num_heads * key_dim] f32. The keys and
// values of the pass are already in the cache. scratch: plan.scratch_bytes.
void attention(const AttentionShape& shape,
               const AttentionBatch& batch,
               const AttentionPlan& plan,
               const CacheRows& cache,
               ConstRows queries,
               Rows out,
               void* scratch,
               Stream stream);

// Prefill over a quantized KV cache: the keys and values of some KV heads become F16 rows in packed
// slots, to which attention() then attends. Each is read by many queries.
//
// Whether attention() with this cache needs it to run on tensor cores.
bool is_gathered(const AttentionShape& shape, const AttentionBatch& batch, DType cache);
// to[positions, num_kv_heads * (key_dim + value_dim)] F16 = the keys, then the values of KV heads
// [first_kv_head, first_kv_head + num_kv_heads); positions: of the contexts of all sequences.
struct GatheredHeads {
  void* to = nullptr;
  std::int64_t positions = 0;
  std::int64_t first_kv_head = 0;
  std::int64_t num_kv_heads = 0;
};
void gather_heads(const AttentionShape& shape,
                  const AttentionBatch& batch,
                  const CacheRows& cache,
                  const GatheredHeads& heads,
                  Stream stream);

// Keys and values of a head each, F16, in packed slots. The trailing columns of the keys are the
// same for all heads.
struct ExpandedKeys {
  const Half* rows = nullptr;  // [slots, heads, own_dim + value_dim]: own columns, then the values
  std::int64_t own_dim = 0;
  const Half* shared = nullptr;  // [slots, key_dim - own_dim]
  std::int64_t shared_stride = 0;
};

// Whether the current device and this build have attention_expanded() for these head dims.
bool can_attend_expanded(const AttentionShape& shape);
AttentionPlan plan_attention_expanded(const AttentionShape& shape, const AttentionBatch& batch);
// attention() over keys that are not in the KV cache. batch.block_tables is null,
// shape.value_offset is ignored.
void attention_expanded(const AttentionShape& shape,
                        const AttentionBatch& batch,
                        const AttentionPlan& plan,
                        const ExpandedKeys& keys,
                        ConstRows queries,
                        Rows out,
                        void* scratch,
                        Stream stream);

}  // namespace graft::kernels::cuda
