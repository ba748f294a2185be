// Grouped-query attention.

#include <array>
#include <string>
#include <string_view>

#include "graft/ops/modules/modules.h"
#include "graft/ops/primitives.h"
#include "graft/ops/profiler.h"

namespace graft::ops {
namespace {

// Llama 4 has one norm without weights for q and k.
Child<Norm> norm_of(const BuildContext& context,
                    const AttentionParams& params,
                    std::string_view name) {
  if (!params.qk_norm) return {};
  const Child<Norm> shared = context.optional_child<Norm>("qk_norm");
  return shared ? shared : context.child_as<Norm>(name);
}

class AttentionModule final : public Attention {
 public:
  explicit AttentionModule(const BuildContext& context)
      : module_(context.module),
        params_(context.params_as<AttentionParams>()),
        device_(context.device),
        primitives_(*context.primitives),
        q_proj_(context.child_as<Linear>("q_proj")),
        k_proj_(context.child_as<Linear>("k_proj")),
        v_proj_(context.child_as<Linear>("v_proj")),
        o_proj_(context.child_as<Linear>("o_proj")),
        q_norm_(norm_of(context, params_, "q_norm")),
        k_norm_(norm_of(context, params_, "k_norm")),
        rotary_emb_(context.optional_child<Rope>("rotary_emb")),
        kv_cache_(context.child_as<KvCache>("kv_cache")),
        core_(primitives_.make_attention(context)) {}

  void load(WeightProvider& weights) override { core_->load(weights); }
  void unload() override { core_->unload(); }

  ActivationFormat input_format(std::int64_t rows) const override {
    return q_proj_->input_format(rows);
  }

  void forward(const Activation& x, TensorView y, Pass& pass) override {
    const ProfileScope profile(pass, device_, module_);
    const Workspace::Scope scope(pass.workspace);
    const std::int64_t q_size = params_.num_heads * params_.head_dim;
    const std::int64_t kv_size = params_.num_key_value_heads * params_.head_dim;
    const TensorView q = pass.workspace.f32({x.rows(), q_size});
    // With an output gate: each head's query, then its gate.
    const TensorView q_and_gate =
        params_.output_gate ? pass.workspace.f32({x.rows(), 2 * q_size}) : q;
    const TensorView k = pass.workspace.f32({x.rows(), kv_size});
    const TensorView v = pass.workspace.f32({x.rows(), kv_size});
    const std::array projections = {LinearCall{q_proj_, q_and_gate}, LinearCall{k_proj_, k},
                                    LinearCall{v_proj_, v}};
    primitives_.linear_group(x, projections, pass);
    const TensorView gates = by_head(q_and_gate, 2 * params_.head_dim);
    if (params_.output_gate) primitives_.copy_columns(gates, by_head(q, params_.head_dim), pass);
    if (params_.qk_norm_all_heads) {
      q_norm_->forward(q, q, pass);
      k_norm_->forward(k, k, pass);
    }
    store(q, k, v, pass);
    if (params_.temperature_floor > 0) primitives_.scale_queries(q, params_, pass);

    const TensorView heads = pass.workspace.f32({x.rows(), q_size});
    core_->forward(q, heads, pass);
    if (params_.output_gate) primitives_.mul_sigmoid(by_head(heads, params_.head_dim), gates, pass);
    o_proj_->apply(heads, y, pass);
  }

 private:
  // The same values with a row per token and head.
  static TensorView by_head(TensorView x, std::int64_t size) {
    return {x.data, x.dtype, {x.rows() * x.cols() / size, size}, x.device};
  }

  // Applies the norm and RoPE to the heads of q and k, and writes k and v to the cache.
  void store(TensorView q, TensorView k, TensorView v, Pass& pass) {
    const std::array spans = {span(q, q_norm_, true, -1), span(k, k_norm_, true, 0),
                              span(v, {}, false, k.cols())};
    primitives_.norm_rope_store(
        {.spans = spans, .rope = rotary_emb_, .cache = kv_cache_, .key = k, .value = v}, pass);
  }

  HeadSpan span(TensorView x, Child<Norm> norm, bool rotates, std::int64_t cache_col) const {
    return {.x = x,
            .num_heads = x.cols() / params_.head_dim,
            .size = params_.head_dim,
            .head_stride = params_.head_dim,
            .norm = params_.qk_norm_all_heads ? Child<Norm>{} : norm,
            .rotates = rotates,
            .cache_col = cache_col};
  }

  std::string module_;
  AttentionParams params_;
  Device device_;
  Primitives& primitives_;
  Child<Linear> q_proj_;
  Child<Linear> k_proj_;
  Child<Linear> v_proj_;
  Child<Linear> o_proj_;
  Child<Norm> q_norm_;      // optional
  Child<Norm> k_norm_;      // optional
  Child<Rope> rotary_emb_;  // optional
  Child<KvCache> kv_cache_;
  std::unique_ptr<AttentionCore> core_;
};

}  // namespace

std::unique_ptr<Operator> make_attention(const BuildContext& context) {
  return std::make_unique<AttentionModule>(context);
}

}  // namespace graft::ops
