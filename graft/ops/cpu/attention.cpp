#include <algorithm>
#include <string>
#include <vector>

#include "graft/ops/cpu/attend.h"
#include "graft/ops/cpu/linear.h"
#include "graft/ops/cpu/operators.h"
#include "graft/ops/profiler.h"

namespace graft::ops::cpu {
namespace {

// Query rows that share a block of decoded keys and values: enough to outweigh the decoding.
constexpr std::int64_t kRowsPerTile = 2 * kAttentionRows;

// The key-value heads of the cache.
class HeadsOfCache final : public KeyValueSource {
 public:
  HeadsOfCache(const KvCache& cache, std::int64_t head_dim) : cache_(cache), head_dim_(head_dim) {}

  // [2, kAttentionBlock, head_dim]
  std::int64_t memory_elems() const override { return 2 * kAttentionBlock * head_dim_; }

  KeysAndValues load(const HeadTile& tile, Positions positions, float* memory) const override {
    const KvCache::Part part = {.begin = positions.begin,
                                .end = positions.end,
                                .first_col = tile.source * head_dim_,
                                .num_cols = head_dim_,
                                .follow = positions.follow};
    float* values = memory + kAttentionBlock * head_dim_;
    cache_.read_keys(*tile.tokens.sequence, part, memory);
    cache_.read_values(*tile.tokens.sequence, part, values);
    const std::int64_t count = positions.end - positions.begin;
    return {.keys = {.data = memory, .rows = count, .stride = head_dim_},
            .values = {.data = values, .rows = count, .stride = head_dim_}};
  }

 private:
  const KvCache& cache_;
  std::int64_t head_dim_;
};

class AttentionCpu final : public Attention {
 public:
  explicit AttentionCpu(const BuildContext& context)
      : module_(context.module),
        params_(context.params_as<AttentionParams>()),
        q_proj_(context.child_as<Linear>("q_proj")),
        k_proj_(context.child_as<Linear>("k_proj")),
        v_proj_(context.child_as<Linear>("v_proj")),
        o_proj_(context.child_as<Linear>("o_proj")),
        q_norm_(params_.qk_norm ? &context.child_as<Norm>("q_norm") : nullptr),
        k_norm_(params_.qk_norm ? &context.child_as<Norm>("k_norm") : nullptr),
        rotary_emb_(context.optional_child<Rope>("rotary_emb")),
        kv_cache_(context.child_as<KvCache>("kv_cache")) {}

  void load(WeightProvider& /*weights*/) override {}  // the children have them all

  void forward(TensorView x, TensorView y, Pass& pass) override {
    const ProfileScope profile(pass, module_);
    const Workspace::Scope scope(pass.workspace);
    const std::int64_t t = x.rows();
    const std::int64_t num_heads = params_.num_heads;
    const std::int64_t num_kv_heads = params_.num_key_value_heads;
    const TensorView q = pass.workspace.f32({t, num_heads * params_.head_dim});
    const TensorView k = pass.workspace.f32({t, num_kv_heads * params_.head_dim});
    const TensorView v = pass.workspace.f32({t, num_kv_heads * params_.head_dim});
    forward_grouped(x, {{&q_proj_, q}, {&k_proj_, k}, {&v_proj_, v}}, pass);
    norm_and_rotate(q, num_heads, q_norm_, pass);
    norm_and_rotate(k, num_kv_heads, k_norm_, pass);
    kv_cache_.write(k, v, pass);

    const TensorView heads = pass.workspace.f32({t, num_heads * params_.head_dim});
    attend_all(q, heads, pass);
    o_proj_.forward(heads, y, pass);
  }

 private:
  // The norm works on every head by itself.
  void norm_and_rotate(TensorView x, std::int64_t num_heads, Norm* norm, Pass& pass) {
    if (norm != nullptr) {
      const TensorView each_head(x.data, DType::F32, {x.rows() * num_heads, params_.head_dim},
                                 x.device);
      norm->forward(each_head, each_head, pass);
    }
    if (rotary_emb_ != nullptr) {
      rotary_emb_->forward(x, {.num_heads = num_heads, .head_dim = params_.head_dim}, pass);
    }
  }

  void attend_all(TensorView q, TensorView out, Pass& pass) {
    const std::int64_t head_dim = params_.head_dim;
    const AttentionShape shape = {.key_dim = head_dim,
                                  .value_dim = head_dim,
                                  .scale = params_.scale,
                                  .window = params_.sliding_window};
    const std::int64_t num_kv_heads = params_.num_key_value_heads;
    const std::int64_t group = params_.num_heads / num_kv_heads;
    const std::int64_t tile_tokens = std::max<std::int64_t>(1, kRowsPerTile / group);
    std::vector<HeadTile> tiles;
    for (const TokenTile& tokens : token_tiles(pass.batch, 0, q.rows(), tile_tokens)) {
      for (std::int64_t kv_head = 0; kv_head < num_kv_heads; ++kv_head) {
        const std::int64_t first_col = kv_head * group * head_dim;
        tiles.push_back({.tokens = tokens,
                         .source = kv_head,
                         .queries = q.f32_row(tokens.first_row) + first_col,
                         .query_stride = q.cols(),
                         .out = out.f32_row(tokens.first_row) + first_col,
                         .out_stride = out.cols(),
                         .num_heads = group});
      }
    }
    // Prefill has rows enough to outweigh the reading, and heads side by side would not fit into
    // the second-level cache.
    const auto num_sequences = static_cast<std::int64_t>(pass.batch.sequences.size());
    const std::int64_t bundle = q.rows() == num_sequences ? num_kv_heads : 1;
    attend(shape, tiles, bundle, HeadsOfCache(kv_cache_, head_dim), pass);
  }

  std::string module_;
  AttentionParams params_;
  Linear& q_proj_;
  Linear& k_proj_;
  Linear& v_proj_;
  Linear& o_proj_;
  Norm* q_norm_;  // null: none
  Norm* k_norm_;
  Rope* rotary_emb_;  // null: positions are not encoded
  KvCache& kv_cache_;
};

}  // namespace

std::unique_ptr<Operator> make_attention_cpu(const BuildContext& context) {
  return std::make_unique<AttentionCpu>(context);
}

}  // namespace graft::ops::cpu
