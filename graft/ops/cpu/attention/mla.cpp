#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "graft/kernels/cpu/table.h"
#include "graft/ops/builtin_kwargs.h"
#include "graft/ops/cpu/attention/attend.h"
#include "graft/ops/cpu/attention/mla_sources.h"
#include "graft/ops/cpu/operators.h"
#include "graft/ops/cpu/workers.h"

namespace graft::ops::cpu {
namespace {

// Absorbed queries are several times as long as plain ones (128 heads of 576 floats: 295 KB per
// token), so a long prefill is processed in chunks.
constexpr std::int64_t kMlaTokensPerChunk = 128;
// Max tokens that share a block of expanded keys and values: expanding a block costs as much as the
// attention of about 300 rows over it.
constexpr std::int64_t kMaxExpandedTokens = 8 * kAttentionRows;

// Multi-head latent attention over the cache of latents (modules/mla.cpp). Expanded: computes the
// keys K_h c and values V_h c of every position. Absorbed: q . K_h c = (K_h^T q) . c, and V_h is
// applied after the sum, so that all heads attend to the latents themselves.
class LatentAttentionCpu final : public AttentionCore {
 public:
  explicit LatentAttentionCpu(const BuildContext& context)
      : module_(context.module),
        params_(context.params_as<MlaParams>()),
        absorb_(context.bool_kwarg(absorb_kwarg())),
        absorb_for_prefill_(context.has_kwarg(absorb_for_prefill_kwarg().key)
                                ? context.bool_kwarg(absorb_for_prefill_kwarg())
                                : absorb_),
        kv_cache_(*context.child_as<KvCache>("kv_cache")) {}

  void load(WeightProvider& weights) override {
    kv_b_proj_ = weights.get(module_ + ".kv_b_proj.weight");
    kv_b_proj_.expect_shape(params_.num_heads * (params_.qk_nope_head_dim + params_.v_head_dim),
                            params_.kv_lora_rank);
  }
  void unload() override { kv_b_proj_ = {}; }

  bool set_kv_b_lora(LoraLayer* keys, LoraLayer* values) override {
    lora_keys_ = keys;
    lora_values_ = values;
    return true;
  }

  // Sequences whose adapter changes kv_b_proj are absorbed in every pass: there the addition has
  // the rows of the queries.
  void forward(TensorView q, TensorView heads, Pass& pass) override {
    if (absorbs(pass)) return attend_absorbed(q, {0, q.rows()}, nullptr, heads, pass);
    attend_expanded(q, heads, pass);
    if (!is_used(lora_keys_, pass)) return;
    for (const SequenceSlice& sequence : pass.batch.sequences) {
      if (!lora_keys_->has(sequence.adapter)) continue;
      const std::int64_t end = sequence.first_row + sequence.num_tokens;
      attend_absorbed(q, {sequence.first_row, end}, nullptr, heads, pass);
    }
  }

  // Rows whose context has at most top_k positions attend to all of them, in either form; the
  // others are absorbed: expanding the selected positions of every row would take too long.
  void forward_selected(TensorView q, TensorView selected, TensorView heads, Pass& pass) override {
    if (absorbs(pass)) return attend_absorbed(q, {0, q.rows()}, &selected, heads, pass);
    attend_expanded(q, heads, pass);
    for (const SequenceSlice& sequence : pass.batch.sequences) {
      const std::int64_t num_dense =
          changes_kv_b(sequence)
              ? 0
              : dense_tokens({.first_position = sequence.context_len - sequence.num_tokens,
                              .num_tokens = sequence.num_tokens});
      attend_absorbed(q, {sequence.first_row + num_dense, sequence.first_row + sequence.num_tokens},
                      &selected, heads, pass);
    }
  }

 private:
  bool changes_kv_b(const SequenceSlice& sequence) const {
    return lora_keys_ != nullptr && lora_keys_->has(sequence.adapter);
  }

  std::int64_t query_dim() const { return params_.qk_nope_head_dim + params_.qk_rope_head_dim; }
  std::int64_t cache_dim() const { return params_.kv_lora_rank + params_.qk_rope_head_dim; }
  std::int64_t rows_of_head() const { return params_.qk_nope_head_dim + params_.v_head_dim; }

  struct RowRange {
    std::int64_t begin = 0;
    std::int64_t end = 0;
  };

  bool absorbs(const Pass& pass) const {
    return pass.phase == Phase::Prefill ? absorb_for_prefill_ : absorb_;
  }

  // selected: the positions that an indexer selected for all rows of the pass; null: all.
  void attend_absorbed(
      TensorView q, RowRange rows, const TensorView* selected, TensorView heads, Pass& pass) {
    for (std::int64_t row = rows.begin; row < rows.end; row += kMlaTokensPerChunk) {
      attend_absorbed(q, row, std::min(kMlaTokensPerChunk, rows.end - row), selected, heads, pass);
    }
  }

  void attend_absorbed(TensorView q,
                       std::int64_t first_row,
                       std::int64_t num_rows,
                       const TensorView* selected,
                       TensorView heads,
                       Pass& pass) {
    const Workspace::Scope scope(pass.workspace);
    const TensorView absorbed = pass.workspace.f32({num_rows, params_.num_heads * cache_dim()});
    const TensorView mixed =
        pass.workspace.f32({num_rows, params_.num_heads * params_.kv_lora_rank});
    const TensorView queries = q.slice(first_row, num_rows);
    const TensorView out = heads.slice(first_row, num_rows);
    absorb_queries(queries, absorbed, pass);
    if (is_used(lora_keys_, pass)) {
      lora_keys_->add({queries.f32(), queries.cols(), query_dim()},
                      {absorbed.f32(), absorbed.cols(), cache_dim()}, first_row, num_rows, pass);
    }
    attend_latents(first_row, absorbed, selected, mixed, pass);
    project_values(mixed, out, pass);
    if (is_used(lora_values_, pass)) {
      lora_values_->add({mixed.f32(), mixed.cols(), params_.kv_lora_rank},
                        {out.f32(), out.cols(), params_.v_head_dim}, first_row, num_rows, pass);
    }
  }

  // Rows of kv_b_proj as f32: in place when they are stored as aligned f32 (a file may store them
  // at odd addresses), else decoded into `scratch`.
  const float* rows_of_kv_b(std::int64_t begin, std::int64_t count, float* scratch) const {
    const bool is_aligned = reinterpret_cast<std::uintptr_t>(kv_b_proj_.data) % alignof(float) == 0;
    if (kv_b_proj_.dtype == DType::F32 && is_aligned)
      return reinterpret_cast<const float*>(kv_b_proj_.data) + begin * params_.kv_lora_rank;
    kv_b_proj_.decode_rows(begin, count, scratch);
    return scratch;
  }

  // absorbed[t, heads, rank + rope]: K_h^T times the nope part of q, then its rope part.
  void absorb_queries(TensorView q, TensorView absorbed, Pass& pass) {
    const std::int64_t rank = params_.kv_lora_rank;
    const std::int64_t nope = params_.qk_nope_head_dim;
    const Workspace::Scope scope(pass.workspace);
    const TensorView scratch =
        pass.workspace.f32({num_workers(pass.pool, params_.num_heads), nope * rank});
    for_each_item(pass.pool, params_.num_heads, [&](std::int64_t worker, std::int64_t head) {
      // [nope, rank]
      const float* keys = rows_of_kv_b(head * rows_of_head(), nope, scratch.f32_row(worker));
      kernels::cpu::kernels().math.product({.a = q.f32() + head * query_dim(),
                                            .a_row = q.cols(),
                                            .b = keys,
                                            .ldb = rank,
                                            .c = absorbed.f32() + head * cache_dim(),
                                            .ldc = absorbed.cols(),
                                            .m = q.rows(),
                                            .n = rank,
                                            .k = nope});
      for (std::int64_t row = 0; row < q.rows(); ++row) {
        std::copy_n(q.f32_row(row) + head * query_dim() + nope, params_.qk_rope_head_dim,
                    absorbed.f32_row(row) + head * cache_dim() + rank);
      }
    });
  }

  // With an indexer, tokens with more than top_k positions in their context are tiles of their own.
  std::vector<TokenTile> split_selected(std::vector<TokenTile> tiles) const {
    if (params_.index_top_k == 0) return tiles;
    std::vector<TokenTile> split;
    for (const TokenTile& tile : tiles) {
      const std::int64_t num_dense = dense_tokens(tile);
      if (num_dense > 0) split.push_back(tile);
      if (num_dense > 0) split.back().num_tokens = num_dense;
      for (std::int64_t i = num_dense; i < tile.num_tokens; ++i) {
        split.push_back({.sequence = tile.sequence,
                         .first_row = tile.first_row + i,
                         .first_position = tile.first_position + i,
                         .num_tokens = 1});
      }
    }
    return split;
  }

  // The leading tokens of a tile that attend to their whole context.
  std::int64_t dense_tokens(const TokenTile& tile) const {
    if (params_.index_top_k == 0) return tile.num_tokens;
    return std::clamp<std::int64_t>(params_.index_top_k - tile.first_position, 0, tile.num_tokens);
  }

  const std::int32_t* positions_of(const TokenTile& tile, const TensorView* selected) const {
    if (selected == nullptr || dense_tokens(tile) > 0) return nullptr;
    return static_cast<const std::int32_t*>(selected->data) + tile.first_row * selected->cols();
  }

  // mixed[t, heads, rank]: the sum of the sequence's latents, weighted by each head's softmax.
  void attend_latents(std::int64_t first_row,
                      TensorView absorbed,
                      const TensorView* selected,
                      TensorView mixed,
                      Pass& pass) {
    const AttentionShape shape = {
        .key_dim = cache_dim(), .value_dim = params_.kv_lora_rank, .scale = params_.scale};
    const std::int64_t step = std::min(kAttentionRows, params_.num_heads);
    const std::int64_t tile_tokens = kAttentionRows / step;
    std::vector<HeadTile> tiles;
    for (const TokenTile& tokens :
         split_selected(token_tiles(pass.batch, first_row, absorbed.rows(), tile_tokens))) {
      const std::int64_t row = tokens.first_row - first_row;
      const std::int32_t* positions = positions_of(tokens, selected);
      for (std::int64_t head = 0; head < params_.num_heads; head += step) {
        tiles.push_back({.tokens = tokens,
                         .queries = absorbed.f32_row(row) + head * shape.key_dim,
                         .query_stride = absorbed.cols(),
                         .out = mixed.f32_row(row) + head * shape.value_dim,
                         .out_stride = mixed.cols(),
                         .num_heads = std::min(step, params_.num_heads - head),
                         .selected = positions});
        if (positions != nullptr) tiles.back().tokens.first_position = params_.index_top_k - 1;
      }
    }
    attend(shape, tiles, (params_.num_heads + step - 1) / step, Latents(kv_cache_, params_), pass);
  }

  // heads[t, heads, v] = V_h times the mixed latents
  void project_values(TensorView mixed, TensorView heads, Pass& pass) {
    const std::int64_t rank = params_.kv_lora_rank;
    const std::int64_t v_dim = params_.v_head_dim;
    const Workspace::Scope scope(pass.workspace);
    const TensorView scratch =
        pass.workspace.f32({num_workers(pass.pool, params_.num_heads), v_dim * rank});
    for_each_item(pass.pool, params_.num_heads, [&](std::int64_t worker, std::int64_t head) {
      const float* values =  // [v, rank]
          rows_of_kv_b(head * rows_of_head() + params_.qk_nope_head_dim, v_dim,
                       scratch.f32_row(worker));
      kernels::cpu::kernels().math.matmul(
          {.data = mixed.f32() + head * rank, .rows = mixed.rows(), .stride = mixed.cols()},
          {.data = values, .rows = v_dim, .stride = rank}, rank, heads.f32() + head * v_dim,
          heads.cols());
    });
  }

  void attend_expanded(TensorView q, TensorView heads, Pass& pass) {
    const AttentionShape shape = {
        .key_dim = query_dim(), .value_dim = params_.v_head_dim, .scale = params_.scale};
    // The largest tiles that leave work for every thread.
    const std::int64_t num_rows = q.rows() * params_.num_heads;
    const auto num_threads = static_cast<std::int64_t>(pass.pool.num_threads());
    const std::int64_t tile_tokens =
        std::clamp(num_rows / (2 * num_threads) / kAttentionRows * kAttentionRows, kAttentionRows,
                   kMaxExpandedTokens);
    std::vector<HeadTile> tiles;
    for (TokenTile tokens : token_tiles(pass.batch, 0, q.rows(), tile_tokens)) {
      tokens.num_tokens = changes_kv_b(*tokens.sequence) ? 0 : dense_tokens(tokens);
      for (std::int64_t head = 0; head < params_.num_heads && tokens.num_tokens > 0; ++head) {
        tiles.push_back({.tokens = tokens,
                         .source = head,
                         .queries = q.f32_row(tokens.first_row) + head * shape.key_dim,
                         .query_stride = q.cols(),
                         .out = heads.f32_row(tokens.first_row) + head * shape.value_dim,
                         .out_stride = heads.cols(),
                         .num_heads = 1});
      }
    }
    attend(shape, tiles, 1, ExpandedHeads(kv_cache_, params_, kv_b_proj_), pass);
  }

  std::string module_;
  MlaParams params_;
  bool absorb_;
  bool absorb_for_prefill_;
  KvCache& kv_cache_;
  Weight kv_b_proj_;  // [heads * (nope + v), kv_lora_rank]
  LoraLayer* lora_keys_ = nullptr;
  LoraLayer* lora_values_ = nullptr;
};

}  // namespace

std::unique_ptr<AttentionCore> make_latent_attention_core(const BuildContext& context) {
  return std::make_unique<LatentAttentionCpu>(context);
}

}  // namespace graft::ops::cpu
