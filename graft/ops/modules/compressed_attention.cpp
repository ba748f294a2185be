// DeepSeek-V4's attention. One key per token is also its value and serves all heads. A token
// attends to a sliding window and to entries of a compressor, each made from several tokens. Keys
// are rotated, so the values are too: the heads' outputs are rotated back by the position of the
// token that attends.

#include <array>
#include <string>

#include "graft/ops/modules/modules.h"
#include "graft/ops/primitives.h"
#include "graft/ops/profiler.h"

namespace graft::ops {
namespace {

class CompressedAttentionModule final : public Attention {
 public:
  explicit CompressedAttentionModule(const BuildContext& context)
      : module_(context.module),
        params_(context.params_as<CompressedAttentionParams>()),
        device_(context.device),
        primitives_(*context.primitives),
        q_a_proj_(context.child_as<Linear>("q_a_proj")),
        q_a_norm_(context.child_as<Norm>("q_a_norm")),
        q_b_proj_(context.child_as<Linear>("q_b_proj")),
        q_b_norm_(context.child_as<Norm>("q_b_norm")),
        kv_proj_(context.child_as<Linear>("kv_proj")),
        kv_norm_(context.child_as<Norm>("kv_norm")),
        o_a_proj_(context.child_as<Linear>("o_a_proj")),
        o_b_proj_(context.child_as<Linear>("o_b_proj")),
        rotary_emb_(context.child_as<Rope>("rotary_emb")),
        inverse_rotary_emb_(context.child_as<Rope>("inverse_rotary_emb")),
        kv_cache_(context.child_as<KvCache>("kv_cache")),
        compressor_(params_.compress_rate == 0 ? Child<Compressor>{}
                                               : context.child_as<Compressor>("compressor")),
        core_(primitives_.make_compressed_attention(context)) {}

  void load(WeightProvider& weights) override { core_->load(weights); }
  void unload() override { core_->unload(); }

  ActivationFormat input_format(std::int64_t rows) const override {
    return q_a_proj_->input_format(rows);
  }

  void forward(const Activation& x, TensorView y, Pass& pass) override {
    const ProfileScope profile(pass, device_, module_);
    const Workspace::Scope scope(pass.workspace);
    const std::int64_t rows = x.rows();
    const TensorView low = pass.workspace.f32({rows, params_.q_lora_rank});
    const TensorView q = pass.workspace.f32({rows, params_.num_heads * params_.head_dim});
    const TensorView kv = pass.workspace.f32({rows, params_.head_dim});
    const std::array projections = {LinearCall{q_a_proj_, low}, LinearCall{kv_proj_, kv}};
    primitives_.linear_group(x, projections, pass);
    q_a_norm_->forward(low, low, pass);
    q_b_proj_->apply(low, q, pass);
    store(q, kv, pass);

    const TensorView heads = pass.workspace.f32({rows, q.cols()});
    attend(x, low, q, heads, pass);
    inverse_rotary_emb_->forward(heads, rotated_heads(), pass);
    const TensorView groups =
        pass.workspace.f32({rows, params_.output_groups * params_.output_lora_rank});
    o_a_proj_->apply(heads, groups, pass);
    o_b_proj_->apply(groups, y, pass);
  }

 private:
  Rope::Heads rotated_heads() const {
    return {.num_heads = params_.num_heads,
            .head_dim = params_.head_dim,
            .offset = params_.head_dim - params_.rope_dim};
  }

  // Norms all heads, rotates their last values, and writes the key to the cache.
  void store(TensorView q, TensorView kv, Pass& pass) {
    const std::int64_t head_dim = params_.head_dim;
    const std::int64_t first = head_dim - params_.rope_dim;
    const std::array spans = {HeadSpan{.x = q,
                                       .num_heads = params_.num_heads,
                                       .size = head_dim,
                                       .head_stride = head_dim,
                                       .norm = q_b_norm_,
                                       .rotates = true,
                                       .rotate_from = first},
                              HeadSpan{.x = kv,
                                       .size = head_dim,
                                       .head_stride = head_dim,
                                       .norm = kv_norm_,
                                       .rotates = true,
                                       .rotate_from = first,
                                       .cache_col = 0}};
    primitives_.norm_rope_store(
        {.spans = spans, .rope = rotary_emb_, .cache = kv_cache_, .key = kv, .value = {}}, pass);
  }

  void attend(const Activation& x, TensorView low, TensorView q, TensorView heads, Pass& pass) {
    if (params_.index_top_k == 0) {
      if (compressor_) compressor_->forward(x, low, {}, pass);
      return core_->forward(q, heads, pass);
    }
    const TensorView selected =
        pass.workspace.allocate(DType::I32, {x.rows(), params_.index_top_k});
    compressor_->forward(x, low, selected, pass);
    core_->forward_selected(q, selected, heads, pass);
  }

  std::string module_;
  CompressedAttentionParams params_;
  Device device_;
  Primitives& primitives_;
  Child<Linear> q_a_proj_;
  Child<Norm> q_a_norm_;
  Child<Linear> q_b_proj_;
  Child<Norm> q_b_norm_;  // without weights
  Child<Linear> kv_proj_;
  Child<Norm> kv_norm_;
  Child<Linear> o_a_proj_;
  Child<Linear> o_b_proj_;
  Child<Rope> rotary_emb_;
  Child<Rope> inverse_rotary_emb_;
  Child<KvCache> kv_cache_;
  Child<Compressor> compressor_;  // optional
  std::unique_ptr<AttentionCore> core_;
};

}  // namespace

std::unique_ptr<Operator> make_compressed_attention(const BuildContext& context) {
  return std::make_unique<CompressedAttentionModule>(context);
}

}  // namespace graft::ops
