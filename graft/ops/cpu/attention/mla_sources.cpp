#include "graft/ops/cpu/attention/mla_sources.h"

#include <algorithm>
#include <array>

#include "graft/kernels/cpu/table.h"

namespace graft::ops::cpu {
namespace {

// Rows of kv_b_proj that are dequantized and transposed at a time.
constexpr std::int64_t kTransposeRows = 16;

// The layout of an expanded head's worker memory; offsets in floats.
struct Layout {
  std::int64_t weight_cols;
  std::int64_t latents = 0;  // [kAttentionBlock, rank + rope]
  std::int64_t weights;      // [rank, weight_cols]: the head's rows of kv_b_proj, transposed
  std::int64_t decoded;      // [kTransposeRows, rank]
  std::int64_t keys;         // [kAttentionBlock, nope + rope]
  std::int64_t values;       // [kAttentionBlock, v]
  std::int64_t end;

  explicit Layout(const MlaParams& p)
      : weight_cols((p.qk_nope_head_dim + p.v_head_dim + 15) / 16 * 16),
        weights(kAttentionBlock * (p.kv_lora_rank + p.qk_rope_head_dim)),
        decoded(weights + p.kv_lora_rank * weight_cols),
        keys(decoded + kTransposeRows * p.kv_lora_rank),
        values(keys + kAttentionBlock * (p.qk_nope_head_dim + p.qk_rope_head_dim)),
        end(values + kAttentionBlock * p.v_head_dim) {}
};

}  // namespace

std::int64_t Latents::memory_elems() const {
  return kAttentionBlock * (params_.kv_lora_rank + params_.qk_rope_head_dim);
}

KeysAndValues Latents::load(const HeadTile& tile, Positions positions, float* memory) const {
  const std::int64_t cols = params_.kv_lora_rank + params_.qk_rope_head_dim;
  if (tile.selected != nullptr) return load_selected(tile, positions, memory);
  cache_.read_keys(*tile.tokens.sequence,
                   {.begin = positions.begin,
                    .end = positions.end,
                    .first_col = 0,
                    .num_cols = cols,
                    .follow = positions.follow},
                   memory);
  const kernels::cpu::RowsF32 rows = {
      .data = memory, .rows = positions.end - positions.begin, .stride = cols};
  return {.keys = rows, .values = rows};
}

// Runs of adjacent positions are read together.
KeysAndValues Latents::load_selected(const HeadTile& tile,
                                     Positions positions,
                                     float* memory) const {
  const std::int64_t cols = params_.kv_lora_rank + params_.qk_rope_head_dim;
  for (std::int64_t i = positions.begin; i < positions.end;) {
    const std::int64_t first = tile.selected[i];
    std::int64_t count = 1;
    while (i + count < positions.end && tile.selected[i + count] == first + count)
      ++count;
    cache_.read_keys(*tile.tokens.sequence,
                     {.begin = first, .end = first + count, .first_col = 0, .num_cols = cols},
                     memory + (i - positions.begin) * cols);
    i += count;
  }
  const kernels::cpu::RowsF32 rows = {
      .data = memory, .rows = positions.end - positions.begin, .stride = cols};
  return {.keys = rows, .values = rows};
}

std::int64_t ExpandedHeads::memory_elems() const {
  return Layout(params_).end;
}

void ExpandedHeads::prepare(const HeadTile& tile, float* memory) const {
  const Layout layout(params_);
  const std::int64_t rank = params_.kv_lora_rank;
  const std::int64_t num_rows = params_.qk_nope_head_dim + params_.v_head_dim;
  float* decoded = memory + layout.decoded;
  std::array<const float*, kTransposeRows> rows{};
  for (std::int64_t r = 0; r < kTransposeRows; ++r)
    rows[static_cast<std::size_t>(r)] = decoded + r * rank;
  for (std::int64_t row = 0; row < num_rows; row += kTransposeRows) {
    const std::int64_t count = std::min(kTransposeRows, num_rows - row);
    kv_b_proj_.decode_rows(tile.source * num_rows + row, count, decoded);
    kernels::cpu::kernels().math.transpose({.data = rows.data(), .rows = count}, rank, 1.0F,
                                           memory + layout.weights + row, layout.weight_cols);
  }
}

KeysAndValues ExpandedHeads::load(const HeadTile& tile, Positions positions, float* memory) const {
  const Layout layout(params_);
  const std::int64_t nope = params_.qk_nope_head_dim;
  const std::int64_t key_dim = nope + params_.qk_rope_head_dim;
  const std::int64_t v_dim = params_.v_head_dim;
  const kernels::cpu::RowsF32 latents =
      latents_.load(tile, positions, memory + layout.latents).keys;
  float* keys = memory + layout.keys;
  float* values = memory + layout.values;
  kernels::cpu::Product product = {.a = latents.data,
                                   .a_row = latents.stride,
                                   .b = memory + layout.weights,
                                   .ldb = layout.weight_cols,
                                   .c = keys,
                                   .ldc = key_dim,
                                   .m = latents.rows,
                                   .n = nope,
                                   .k = params_.kv_lora_rank};
  kernels::cpu::kernels().math.product(product);
  for (std::int64_t row = 0; row < latents.rows; ++row) {
    std::copy_n(latents.data + row * latents.stride + params_.kv_lora_rank,
                params_.qk_rope_head_dim, keys + row * key_dim + nope);
  }
  product.b += nope;
  product.c = values;
  product.ldc = v_dim;
  product.n = v_dim;
  kernels::cpu::kernels().math.product(product);
  return {.keys = {.data = keys, .rows = latents.rows, .stride = key_dim},
          .values = {.data = values, .rows = latents.rows, .stride = v_dim}};
}

}  // namespace graft::ops::cpu
