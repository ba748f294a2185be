// Multi-head latent attention. Absorbed: queries are projected into the latent space, all heads
// attend to the latents (attention.h), and the result is projected to the heads' values. Expanded,
// for prefill: the keys and values of the heads are computed from the latents of the context.
//
//    split_kv_b        once, at weight loading
//
//    absorb_queries    q[t, heads, nope + rope] → absorbed[t, heads, rank + rope]
//    attention()       with one KV head, key_dim rank + rope, value_dim rank, value_offset 0
//    project_values    mixed[t, heads, rank] → out[t, heads, value]
//
//    gather_latents    the cache's rows of whole contexts → latents, in packed slots
//    expand_latents    latents → keys and values of some heads
//    attend_expanded   q[t, heads, nope + rope] → out[t, heads, value] of these heads
//
// A query of the absorbed form takes 2 rank + rope products per key, one of the expanded form nope
// + rope + value; but every position of the context is expanded first, rank (nope + value)
// products.

#pragma once

#include <cstddef>
#include <cstdint>

#include "graft/kernels/cuda/attention/attention.h"
#include "graft/kernels/cuda/linear/linear.h"

namespace graft::kernels::cuda {

struct MlaShape {
  std::int64_t num_heads = 0;
  std::int64_t rank = 0;   // kv_lora_rank
  std::int64_t nope = 0;   // qk_nope_head_dim
  std::int64_t rope = 0;   // qk_rope_head_dim
  std::int64_t value = 0;  // v_head_dim
};

// kv_b_proj split by head, F32 or F16: keys[heads, rank, nope] (K transposed) and values[heads,
// value, rank].
struct MlaWeights {
  DType dtype = DType::F16;
  void* keys = nullptr;
  void* values = nullptr;
};

// kv_b: kv_b_proj [heads * (nope + value), rank] dequantized to f32.
void split_kv_b(const MlaShape& shape, const float* kv_b, const MlaWeights& out, Stream stream);

// Up to 8 rows run as gemv in f32, more as gemm in the weights' precision (gemm_f16 for F16 on GPUs
// with tensor cores).
std::size_t absorb_queries_bytes(const MlaShape& shape,
                                 const MlaWeights& weights,
                                 std::int64_t rows);
void absorb_queries(const MlaShape& shape,
                    const MlaWeights& weights,
                    const float* queries,
                    float* absorbed,
                    std::int64_t rows,
                    void* scratch,
                    Stream stream);
std::size_t project_values_bytes(const MlaShape& shape,
                                 const MlaWeights& weights,
                                 std::int64_t rows);
void project_values(const MlaShape& shape,
                    const MlaWeights& weights,
                    const float* mixed,
                    Rows out,
                    std::int64_t rows,
                    void* scratch,
                    Stream stream);

// Latents of packed positions (AttentionBatch), and keys and values of some heads.
struct ExpandedLatents {
  DType dtype = DType::F16;  // expanded_type()
  void* latents = nullptr;   // [rows, rank + rope]
  // F16: [rows, num_heads, nope + value]. F32: [rows, num_heads * (nope + rope) + num_heads *
  // value]
  void* heads = nullptr;
  std::int64_t rows = 0;  // the context lengths of all sequences
  std::int64_t first_head = 0;
  std::int64_t num_heads = 0;
};

// F16: tensor cores. F32: for exact arithmetic, F32 weights or an F32 cache, and for head dims or
// GPUs without the kernels.
DType expanded_type(const MlaShape& shape,
                    const MlaWeights& weights,
                    DType cache,
                    Arithmetic arithmetic);
std::size_t latents_bytes(const MlaShape& shape, DType dtype, std::int64_t rows);
std::size_t heads_bytes(const MlaShape& shape, DType dtype, std::int64_t rows, std::int64_t heads);

void gather_latents(const AttentionBatch& batch,
                    const CacheRows& cache,
                    const ExpandedLatents& to,
                    Stream stream);
void expand_latents(const MlaShape& shape,
                    const MlaWeights& weights,
                    const ExpandedLatents& expanded,
                    Stream stream);

// Of plan_expanded().
struct ExpandedAttention {
  AttentionShape shape;
  AttentionPlan plan;
};
ExpandedAttention plan_expanded(const MlaShape& shape,
                                float scale,
                                const AttentionBatch& batch,
                                const ExpandedLatents& expanded);
// queries[rows, all heads * (nope + rope)], out[rows, all heads * value]; scratch:
// attention.plan.scratch_bytes.
void attend_expanded(const MlaShape& shape,
                     const ExpandedAttention& attention,
                     const AttentionBatch& batch,
                     const ExpandedLatents& expanded,
                     ConstRows queries,
                     Rows out,
                     void* scratch,
                     Stream stream);

}  // namespace graft::kernels::cuda
