#include "graft/ops/mla_sources_cpu.h"

#include <algorithm>

#include "graft/kernels/cpu/table.h"

namespace graft::ops {
namespace {

struct Sizes {
  std::int64_t latents;
  std::int64_t weights;
  std::int64_t keys;
  std::int64_t values;

  explicit Sizes(const MlaParams& p)
      : latents(kAttentionBlock * (p.kv_lora_rank + p.qk_rope_head_dim)),
        weights((p.qk_nope_head_dim + p.v_head_dim) * p.kv_lora_rank),
        keys(kAttentionBlock * (p.qk_nope_head_dim + p.qk_rope_head_dim)),
        values(kAttentionBlock * p.v_head_dim) {}
};

}  // namespace

KeysAndValues Latents::load(std::int64_t begin, std::int64_t end) {
  const std::int64_t cols = params_.kv_lora_rank + params_.qk_rope_head_dim;
  cache_.read_keys(sequence_, {.begin = begin, .end = end, .first_col = 0, .num_cols = cols},
                   rows_);
  const cpu::RowsF32 rows = {.data = rows_, .rows = end - begin, .stride = cols};
  return {.keys = rows, .values = rows};
}

std::int64_t ExpandedHead::scratch_elems(const MlaParams& params) {
  const Sizes sizes(params);
  return sizes.latents + sizes.weights + sizes.keys + sizes.values;
}

ExpandedHead::ExpandedHead(const KvCache& cache,
                           const SequenceSlice& sequence,
                           const MlaParams& params,
                           float* memory)
    : params_(params),
      latents_(cache, sequence, params, memory),
      weights_(memory + Sizes(params).latents),
      keys_(weights_ + Sizes(params).weights),
      values_(keys_ + Sizes(params).keys) {}

void ExpandedHead::decode_weights(const Weight& kv_b_proj, std::int64_t head) {
  const std::int64_t num_rows = params_.qk_nope_head_dim + params_.v_head_dim;
  kv_b_proj.decode_rows(head * num_rows, num_rows, weights_);
}

KeysAndValues ExpandedHead::load(std::int64_t begin, std::int64_t end) {
  const cpu::MathTable& math = cpu::kernels().math;
  const std::int64_t rank = params_.kv_lora_rank;
  const std::int64_t nope = params_.qk_nope_head_dim;
  const std::int64_t rope = params_.qk_rope_head_dim;
  const std::int64_t key_dim = nope + rope;
  const std::int64_t v_dim = params_.v_head_dim;
  const cpu::RowsF32 latents = latents_.load(begin, end).keys;
  math.matmul(latents, {.data = weights_, .rows = nope, .stride = rank}, rank, keys_, key_dim);
  for (std::int64_t row = 0; row < latents.rows; ++row)
    std::copy_n(latents.data + row * latents.stride + rank, rope, keys_ + row * key_dim + nope);
  math.matmul(latents, {.data = weights_ + nope * rank, .rows = v_dim, .stride = rank}, rank,
              values_, v_dim);
  return {.keys = {.data = keys_, .rows = latents.rows, .stride = key_dim},
          .values = {.data = values_, .rows = latents.rows, .stride = v_dim}};
}

}  // namespace graft::ops
