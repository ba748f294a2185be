#include <string>

#include "graft/base/error.h"
#include "graft/kernels/cuda/attention/qk_norm_rope_store.h"
#include "graft/ops/cuda/attend.h"
#include "graft/ops/cuda/linear.h"
#include "graft/ops/cuda/operators.h"
#include "graft/ops/cuda/rms_norm.h"
#include "graft/ops/cuda/rope.h"
#include "graft/ops/cuda/views.h"

namespace graft::ops::cuda {
namespace {

class AttentionCuda final : public Attention {
 public:
  explicit AttentionCuda(const BuildContext& context)
      : module_(context.module),
        params_(context.params_as<AttentionParams>()),
        device_(context.device),
        precision_(precision_kwarg(context)),
        q_proj_(context.child_as<Linear>("q_proj")),
        k_proj_(context.child_as<Linear>("k_proj")),
        v_proj_(context.child_as<Linear>("v_proj")),
        o_proj_(context.child_as<Linear>("o_proj")),
        q_norm_(params_.qk_norm ? &context.child_as<Norm>("q_norm") : nullptr),
        k_norm_(params_.qk_norm ? &context.child_as<Norm>("k_norm") : nullptr),
        rotary_emb_(context.optional_child<Rope>("rotary_emb")),
        q_norm_here_(dynamic_cast<const RmsNormCuda*>(q_norm_)),
        k_norm_here_(dynamic_cast<const RmsNormCuda*>(k_norm_)),
        rotary_emb_here_(dynamic_cast<const RopeCuda*>(rotary_emb_)),
        kv_cache_(cache_of(context)) {}

  void load(WeightProvider& /*weights*/) override {}  // the children have them all

  void forward(TensorView x, TensorView y, Pass& pass) override {
    CudaState& state = cuda_state(device_, pass);
    const CudaProfileScope profile(state, pass, module_);
    const Workspace::Scope scope(pass.workspace);
    const std::int64_t t = x.rows();
    const std::int64_t key_cols = params_.num_key_value_heads * params_.head_dim;
    const TensorView q = pass.workspace.f32({t, params_.num_heads * params_.head_dim});
    const TensorView k = pass.workspace.f32({t, key_cols});
    const TensorView v = pass.workspace.f32({t, key_cols});
    forward_grouped(x, {{&q_proj_, q}, {&k_proj_, k}, {&v_proj_, v}}, device_, pass);
    // Whoever measures wants to know each step by itself.
    if (is_all_here() && pass.profiler == nullptr) {
      ready_together(q, k, v, state);
    } else {
      norm_and_rotate(q, params_.num_heads, q_norm_, pass);
      norm_and_rotate(k, params_.num_key_value_heads, k_norm_, pass);
      kv_cache_.write(k, v, pass);
    }

    const TensorView heads = pass.workspace.f32({t, q.cols()});
    attend({.num_heads = params_.num_heads,
            .num_kv_heads = params_.num_key_value_heads,
            .key_dim = params_.head_dim,
            .value_dim = params_.head_dim,
            .value_offset = key_cols,
            .window = params_.sliding_window,
            .scale = params_.scale,
            .arithmetic = arithmetic_of(precision_)},
           kv_cache_, q, heads, state, pass.workspace);
    o_proj_.forward(heads, y, pass);
  }

 private:
  bool is_all_here() const {
    return (q_norm_ == nullptr || q_norm_here_ != nullptr) &&
           (k_norm_ == nullptr || k_norm_here_ != nullptr) &&
           (rotary_emb_ == nullptr || rotary_emb_here_ != nullptr) &&
           params_.head_dim <= kernels::cuda::kMaxHeadSize;
  }

  // Norms, rotations and the cache's rows in one step.
  void ready_together(TensorView q, TensorView k, TensorView v, CudaState& state) {
    const auto span = [&](TensorView x, const RmsNormCuda* norm, std::int64_t cache_col) {
      return kernels::cuda::HeadSpan{.x = rows_of(x),
                                     .num_heads = x.cols() / params_.head_dim,
                                     .size = params_.head_dim,
                                     .distance = params_.head_dim,
                                     .norm = norm == nullptr ? nullptr : norm->weight(),
                                     .eps = norm == nullptr ? 0.0F : norm->eps(),
                                     .rotates = rotary_emb_here_ != nullptr,
                                     .cache_col = cache_col};
    };
    kernels::cuda::HeadSpan spans[] = {span(q, q_norm_here_, -1), span(k, k_norm_here_, 0),
                                       span(v, nullptr, k.cols())};
    spans[2].rotates = false;
    kernels::cuda::qk_norm_rope_store(
        spans,
        {.rows = q.rows(),
         .rotation =
             rotary_emb_here_ == nullptr ? kernels::cuda::Rotation{} : rotary_emb_here_->rotation(),
         .positions = state.positions(),
         .cache = kv_cache_.rows(),
         .slots = state.slots(kv_cache_.block_tokens())},
        state.stream());
  }

  // The norm works on every head by itself.
  void norm_and_rotate(TensorView x, std::int64_t num_heads, Norm* norm, Pass& pass) {
    if (norm != nullptr) {
      const TensorView each_head(x.data, DType::F32, {x.rows() * num_heads, params_.head_dim},
                                 x.device);
      norm->forward(each_head, each_head, pass);
    }
    if (rotary_emb_ != nullptr)
      rotary_emb_->forward(x, {.num_heads = num_heads, .head_dim = params_.head_dim}, pass);
  }

  std::string module_;
  AttentionParams params_;
  Device device_;
  Precision precision_;
  Linear& q_proj_;
  Linear& k_proj_;
  Linear& v_proj_;
  Linear& o_proj_;
  Norm* q_norm_;  // null: none
  Norm* k_norm_;
  Rope* rotary_emb_;  // null: positions are not encoded
  // The same where they are of this GPU.
  const RmsNormCuda* q_norm_here_;
  const RmsNormCuda* k_norm_here_;
  const RopeCuda* rotary_emb_here_;
  KvCacheCuda& kv_cache_;
};

}  // namespace

void attend(const kernels::cuda::AttentionShape& shape,
            const KvCacheCuda& cache,
            TensorView queries,
            TensorView out,
            CudaState& state,
            Workspace& workspace) {
  for (const auto& [batch, first_row] : state.sequences(cache.block_tokens())) {
    if (batch.num_sequences == 0) continue;
    const Workspace::Scope scope(workspace);
    const kernels::cuda::AttentionPlan plan =
        kernels::cuda::plan_attention(shape, batch, cache.rows().dtype);
    const TensorView scratch =
        workspace.take(DType::U8, {static_cast<std::int64_t>(plan.scratch_bytes)});
    kernels::cuda::attention(
        shape, batch, plan, cache.rows(), rows_of(queries.slice(first_row, batch.num_rows)),
        rows_of(out.slice(first_row, batch.num_rows)), scratch.data, state.stream());
  }
}

KvCacheCuda& cache_of(const BuildContext& context) {
  auto* cache = dynamic_cast<KvCacheCuda*>(&context.child_as<KvCache>("kv_cache"));
  if (cache == nullptr)
    fail(context.module, ": attention on a GPU needs the KV cache cuda.kv_cache");
  return *cache;
}

std::unique_ptr<Operator> make_attention_cuda(const BuildContext& context) {
  return std::make_unique<AttentionCuda>(context);
}

}  // namespace graft::ops::cuda
