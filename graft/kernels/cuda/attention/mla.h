// Multi-head latent attention in its absorbed form: queries are brought to the latents, all heads
// attend to these (attention.h), and what comes out is brought to the heads' values.
//
//   split_kv_b        once, when weights are loaded
//   absorb_queries    q[t, heads, nope + rope] → absorbed[t, heads, rank + rope]
//   attention()       with one key-value head, key_dim rank + rope, value_dim rank, offset 0
//   project_values    mixed[t, heads, rank] → out[t, heads, v]
//
// There is no expanded form: the absorbed one handles prompts too, in tiles of rows.

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

// kv_b_proj by heads, F32 or F16: keys [heads, rank, nope], the heads' K transposed, and values
// [heads, value, rank].
struct MlaWeights {
  DType dtype = DType::F16;
  void* keys = nullptr;
  void* values = nullptr;
};

// From kv_b_proj [heads * (nope + value), rank] decoded to floats.
void split_kv_b(const MlaShape& shape, const float* kv_b, const MlaWeights& out, Stream stream);

// Few rows (up to 8) in float arithmetic; more in that of the weights' type, where for F16 the GPU
// has it (gemm_f16).
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
