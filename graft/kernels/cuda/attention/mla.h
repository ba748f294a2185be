// Multi-head latent attention in absorbed form: queries are projected into the latent space, all
// heads attend to the latents (attention.h), and the result is projected to the heads' values.
//
//    split_kv_b        once, at weight loading
//    absorb_queries    q[t, heads, nope + rope] → absorbed[t, heads, rank + rope]
//    attention()       with one KV head, key_dim rank + rope, value_dim rank, value_offset 0
//    project_values    mixed[t, heads, rank] → out[t, heads, value]
//
// There is no expanded form: the absorbed one also handles prompts, in tiles of rows.

#pragma once

#include <cstddef>
#include <cstdint>

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

}  // namespace graft::kernels::cuda
