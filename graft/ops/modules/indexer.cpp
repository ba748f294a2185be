// The lightning indexer of DeepSeek's sparse attention. It has a cache of its own with one key per
// token; its queries are projections of the attention's query latents. The device's IndexerCore
// scores the cached keys and selects the best positions for each token.

#include <array>
#include <string>

#include "graft/ops/modules/modules.h"
#include "graft/ops/primitives.h"
#include "graft/ops/profiler.h"

namespace graft::ops {
namespace {

class IndexerModule final : public Indexer {
 public:
  explicit IndexerModule(const BuildContext& context)
      : module_(context.module),
        params_(context.params_as<IndexerParams>()),
        device_(context.device),
        primitives_(*context.primitives),
        wq_b_(context.child_as<Linear>("wq_b")),
        wk_(context.child_as<Linear>("wk")),
        weights_proj_(context.child_as<Linear>("weights_proj")),
        rotary_emb_(context.child_as<Rope>("rotary_emb")),
        kv_cache_(context.child_as<KvCache>("kv_cache")),
        core_(primitives_.make_indexer(context)) {}

  void load(WeightProvider& weights) override { core_->load(weights); }
  void unload() override { core_->unload(); }

  void forward(const Activation& x,
               TensorView q_latents,
               TensorView selected,
               Pass& pass) override {
    const ProfileScope profile(pass, device_, module_);
    const Workspace::Scope scope(pass.workspace);
    const TensorView q = pass.workspace.f32({x.rows(), params_.num_heads * params_.head_dim});
    const TensorView k = pass.workspace.f32({x.rows(), params_.head_dim});
    const TensorView weights = pass.workspace.f32({x.rows(), params_.num_heads});
    wq_b_->apply(q_latents, q, pass);
    const std::array projections = {LinearCall{wk_, k}, LinearCall{weights_proj_, weights}};
    primitives_.linear_group(x, projections, pass);
    core_->norm_keys(k, pass);
    store(q, k, pass);
    core_->select(q, weights, selected, pass);
  }

 private:
  // Applies RoPE to the leading part of every head, and writes k to the cache.
  void store(TensorView q, TensorView k, Pass& pass) {
    const std::array spans = {HeadSpan{.x = q,
                                       .num_heads = params_.num_heads,
                                       .size = params_.head_dim,
                                       .head_stride = params_.head_dim,
                                       .rotates = true},
                              HeadSpan{.x = k,
                                       .size = params_.head_dim,
                                       .head_stride = params_.head_dim,
                                       .rotates = true,
                                       .cache_col = 0}};
    primitives_.norm_rope_store(
        {.spans = spans, .rope = rotary_emb_, .cache = kv_cache_, .key = k, .value = {}}, pass);
  }

  std::string module_;
  IndexerParams params_;
  Device device_;
  Primitives& primitives_;
  Child<Linear> wq_b_;
  Child<Linear> wk_;
  Child<Linear> weights_proj_;
  Child<Rope> rotary_emb_;
  Child<KvCache> kv_cache_;
  std::unique_ptr<IndexerCore> core_;
};

}  // namespace

std::unique_ptr<Operator> make_indexer(const BuildContext& context) {
  return std::make_unique<IndexerModule>(context);
}

}  // namespace graft::ops
