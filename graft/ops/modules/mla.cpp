// Multi-head latent attention. The cache holds, per token, the normed latent c and one rotated key
// part that all heads share. Head h has keys [K_h c, rotated] and values V_h c; K_h and V_h are
// rows of kv_b_proj, which the device's AttentionCore holds in the layout its kernels need. With an
// indexer (sparse attention), a token attends to the positions that the indexer selects for it; a
// layer without one may use those of the last layer that has one.

#include <array>
#include <string>

#include "graft/base/check.h"
#include "graft/ops/modules/modules.h"
#include "graft/ops/modules/selected_positions.h"
#include "graft/ops/primitives.h"
#include "graft/ops/profiler.h"

namespace graft::ops {
namespace {

class MlaModule final : public Attention {
 public:
  explicit MlaModule(const BuildContext& context)
      : module_(context.module),
        params_(context.params_as<MlaParams>()),
        device_(context.device),
        primitives_(*context.primitives),
        q_proj_(params_.q_lora_rank == 0 ? context.child_as<Linear>("q_proj") : Child<Linear>{}),
        q_a_proj_(context.optional_child<Linear>("q_a_proj")),
        q_a_layernorm_(context.optional_child<Norm>("q_a_layernorm")),
        q_b_proj_(params_.q_lora_rank == 0 ? Child<Linear>{}
                                           : context.child_as<Linear>("q_b_proj")),
        kv_a_proj_(context.child_as<Linear>("kv_a_proj_with_mqa")),
        kv_a_layernorm_(context.child_as<Norm>("kv_a_layernorm")),
        o_proj_(context.child_as<Linear>("o_proj")),
        rotary_emb_(context.child_as<Rope>("rotary_emb")),
        kv_cache_(context.child_as<KvCache>("kv_cache")),
        indexer_(context.optional_child<Indexer>("indexer")),
        core_(primitives_.make_mla_attention(context)) {}

  void load(WeightProvider& weights) override { core_->load(weights); }
  void unload() override { core_->unload(); }

  bool set_kv_b_lora(LoraLayer* keys, LoraLayer* values) override {
    return core_->set_kv_b_lora(keys, values);
  }

  ActivationFormat input_format(std::int64_t rows) const override {
    return (q_proj_ ? q_proj_ : q_a_proj_)->input_format(rows);
  }

  void forward(const Activation& x, TensorView y, Pass& pass) override {
    const ProfileScope profile(pass, device_, module_);
    const Workspace::Scope scope(pass.workspace);
    const TensorView q = pass.workspace.f32({x.rows(), params_.num_heads * query_dim()});
    const TensorView latents = pass.workspace.f32({x.rows(), cache_dim()});
    const TensorView selected = selected_positions(x.rows(), pass);
    project(x, q, latents, selected, pass);
    store(q, latents, pass);

    const TensorView heads = pass.workspace.f32({x.rows(), params_.num_heads * params_.v_head_dim});
    if (params_.index_top_k > 0) {
      core_->forward_selected(q, selected, heads, pass);
    } else {
      core_->forward(q, heads, pass);
    }
    o_proj_->apply(heads, y, pass);
  }

 private:
  std::int64_t query_dim() const { return params_.qk_nope_head_dim + params_.qk_rope_head_dim; }
  std::int64_t cache_dim() const { return params_.kv_lora_rank + params_.qk_rope_head_dim; }

  // [rows, top_k] for the indexer to write, or that of a layer before. Empty without sparse
  // attention.
  TensorView selected_positions(std::int64_t rows, Pass& pass) const {
    if (params_.index_top_k == 0) return {};
    if (pass.selected != nullptr)
      return indexer_ ? pass.selected->replace(device_) : pass.selected->on(device_);
    GRAFT_CHECK(indexer_, module_, " has no indexer and no layer before that shares one");
    return pass.workspace.allocate(DType::I32, {rows, params_.index_top_k});
  }

  // q[t, heads, nope + rope] and the cache's rows latents[t, rank + rope], neither rotated yet;
  // with an indexer, the positions that it selects.
  void project(
      const Activation& x, TensorView q, TensorView latents, TensorView selected, Pass& pass) {
    if (q_proj_) {
      const std::array calls = {LinearCall{q_proj_, q}, LinearCall{kv_a_proj_, latents}};
      return primitives_.linear_group(x, calls, pass);
    }
    const Workspace::Scope scope(pass.workspace);
    const TensorView low = pass.workspace.f32({x.rows(), params_.q_lora_rank});
    const std::array calls = {LinearCall{q_a_proj_, low}, LinearCall{kv_a_proj_, latents}};
    primitives_.linear_group(x, calls, pass);
    q_a_layernorm_->forward(low, low, pass);
    q_b_proj_->apply(low, q, pass);
    if (indexer_) indexer_->forward(x, low, selected, pass);
  }

  // Applies RoPE to the rope part of q, norm and RoPE to the latents, and writes them to the cache.
  void store(TensorView q, TensorView latents, Pass& pass) {
    const std::int64_t rank = params_.kv_lora_rank;
    const std::int64_t rope = params_.qk_rope_head_dim;
    const std::array spans = {HeadSpan{.x = q,
                                       .offset = params_.qk_nope_head_dim,
                                       .num_heads = params_.num_heads,
                                       .size = rope,
                                       .head_stride = query_dim(),
                                       .rotates = true},
                              HeadSpan{.x = latents,
                                       .size = rank,
                                       .head_stride = rank,
                                       .norm = kv_a_layernorm_,
                                       .cache_col = 0},
                              HeadSpan{.x = latents,
                                       .offset = rank,
                                       .size = rope,
                                       .head_stride = rope,
                                       .rotates = true,
                                       .cache_col = rank}};
    primitives_.norm_rope_store(
        {.spans = spans, .rope = rotary_emb_, .cache = kv_cache_, .key = latents, .value = {}},
        pass);
  }

  std::string module_;
  MlaParams params_;
  Device device_;
  Primitives& primitives_;
  Child<Linear> q_proj_;  // or, with q_lora_rank, the next three
  Child<Linear> q_a_proj_;
  Child<Norm> q_a_layernorm_;
  Child<Linear> q_b_proj_;
  Child<Linear> kv_a_proj_;
  Child<Norm> kv_a_layernorm_;
  Child<Linear> o_proj_;
  Child<Rope> rotary_emb_;
  Child<KvCache> kv_cache_;
  Child<Indexer> indexer_;  // null: dense attention, or the selection of a layer before
  std::unique_ptr<AttentionCore> core_;
};

}  // namespace

std::unique_ptr<Operator> make_mla(const BuildContext& context) {
  return std::make_unique<MlaModule>(context);
}

}  // namespace graft::ops
