#include "graft/kernels/cuda/attention/mla.h"

#include <algorithm>
#include <string>

#include "graft/kernels/cuda/attention/qk_norm_rope_store.h"
#include "graft/kernels/cuda/elementwise.h"
#include "graft/ops/cuda/attend.h"
#include "graft/ops/cuda/device_weight.h"
#include "graft/ops/cuda/linear.h"
#include "graft/ops/cuda/operators.h"
#include "graft/ops/cuda/products.h"
#include "graft/ops/cuda/rms_norm.h"
#include "graft/ops/cuda/rope.h"
#include "graft/ops/cuda/views.h"

namespace graft::ops::cuda {
namespace {

// Multi-head latent attention, absorbed: q . K_h c = (K_h^T q) . c, and V_h stands behind the sum,
// so that all heads attend to the latents of the cache. K_h^T and V_h are kept as stacks of
// matrices.
class MlaCuda final : public Attention {
 public:
  explicit MlaCuda(const BuildContext& context)
      : module_(context.module),
        params_(context.params_as<MlaParams>()),
        shape_{.num_heads = params_.num_heads,
               .rank = params_.kv_lora_rank,
               .nope = params_.qk_nope_head_dim,
               .rope = params_.qk_rope_head_dim,
               .value = params_.v_head_dim},
        device_(context.device),
        precision_(precision_kwarg(context)),
        q_proj_(params_.q_lora_rank == 0 ? &context.child_as<Linear>("q_proj") : nullptr),
        q_a_proj_(context.optional_child<Linear>("q_a_proj")),
        q_a_layernorm_(context.optional_child<Norm>("q_a_layernorm")),
        q_b_proj_(params_.q_lora_rank == 0 ? nullptr : &context.child_as<Linear>("q_b_proj")),
        kv_a_proj_(context.child_as<Linear>("kv_a_proj_with_mqa")),
        kv_a_layernorm_(context.child_as<Norm>("kv_a_layernorm")),
        o_proj_(context.child_as<Linear>("o_proj")),
        rotary_emb_(context.child_as<Rope>("rotary_emb")),
        kv_a_layernorm_here_(dynamic_cast<const RmsNormCuda*>(&kv_a_layernorm_)),
        rotary_emb_here_(dynamic_cast<const RopeCuda*>(&rotary_emb_)),
        kv_cache_(cache_of(context)) {}

  void load(WeightProvider& weights) override {
    const Weight weight = weights.get(module_ + ".kv_b_proj.weight");
    weight.expect_shape(shape_.num_heads * (shape_.nope + shape_.value), shape_.rank);
    const bool is_exact = precision_ == Precision::F32 || weight.dtype == DType::F32;
    const DType dtype = is_exact ? DType::F32 : DType::F16;
    const std::int64_t elems = shape_.num_heads * shape_.rank;
    keys_ = Buffer(bytes_of(dtype, elems * shape_.nope), device_);
    values_ = Buffer(bytes_of(dtype, elems * shape_.value), device_);
    weights_ = {.dtype = dtype, .keys = keys_.data(), .values = values_.data()};
    const Buffer decoded = upload_floats(weight.decode(), device_);
    const CudaStream stream(device_.index);
    kernels::cuda::split_kv_b(shape_, reinterpret_cast<const float*>(decoded.data()), weights_,
                              stream.get());
    stream.wait();
    weights.release(weight);
  }
  void unload() override {
    keys_ = {};
    values_ = {};
    weights_ = {};
  }

  void forward(TensorView x, TensorView y, Pass& pass) override {
    CudaState& state = cuda_state(device_, pass);
    const CudaProfileScope profile(state, pass, module_);
    const Workspace::Scope scope(pass.workspace);
    const TensorView q = pass.workspace.f32({x.rows(), params_.num_heads * query_dim()});
    const TensorView rows = pass.workspace.f32({x.rows(), cache_dim()});
    project(x, q, rows, pass);
    // Whoever measures wants to know each step by itself.
    if (is_all_here() && pass.profiler == nullptr) {
      ready_together(q, rows, state);
    } else {
      rotate_queries(q, pass);
      write_cache(rows, state, pass);
    }
    const TensorView heads = pass.workspace.f32({x.rows(), params_.num_heads * params_.v_head_dim});
    attend_absorbed(q, heads, state, pass);
    o_proj_.forward(heads, y, pass);
  }

 private:
  std::int64_t query_dim() const { return params_.qk_nope_head_dim + params_.qk_rope_head_dim; }
  std::int64_t cache_dim() const { return params_.kv_lora_rank + params_.qk_rope_head_dim; }

  bool is_all_here() const {
    return kv_a_layernorm_here_ != nullptr && rotary_emb_here_ != nullptr &&
           params_.kv_lora_rank <= kernels::cuda::kMaxHeadSize &&
           params_.qk_rope_head_dim <= kernels::cuda::kMaxHeadSize;
  }

  // q[t, heads, nope + rope] and what becomes the cache's rows.
  void project(TensorView x, TensorView q, TensorView rows, Pass& pass) {
    if (q_proj_ != nullptr) {
      forward_grouped(x, {{q_proj_, q}, {&kv_a_proj_, rows}}, device_, pass);
    } else {
      const Workspace::Scope scope(pass.workspace);
      const TensorView low = pass.workspace.f32({x.rows(), params_.q_lora_rank});
      forward_grouped(x, {{q_a_proj_, low}, {&kv_a_proj_, rows}}, device_, pass);
      q_a_layernorm_->forward(low, low, pass);
      q_b_proj_->forward(low, q, pass);
    }
  }

  // What rotate_queries() and write_cache() do, in one step.
  void ready_together(TensorView q, TensorView rows, CudaState& state) {
    const std::int64_t rank = params_.kv_lora_rank;
    const kernels::cuda::HeadSpan queries = {.x = rows_of(q, params_.qk_nope_head_dim),
                                             .num_heads = params_.num_heads,
                                             .size = params_.qk_rope_head_dim,
                                             .distance = query_dim(),
                                             .rotates = true};
    const kernels::cuda::HeadSpan latents = {.x = rows_of(rows),
                                             .size = rank,
                                             .norm = kv_a_layernorm_here_->weight(),
                                             .eps = kv_a_layernorm_here_->eps(),
                                             .cache_col = 0};
    const kernels::cuda::HeadSpan keys = {.x = rows_of(rows, rank),
                                          .size = params_.qk_rope_head_dim,
                                          .rotates = true,
                                          .cache_col = rank};
    const kernels::cuda::HeadSpan spans[] = {queries, latents, keys};
    kernels::cuda::qk_norm_rope_store(spans,
                                      {.rows = q.rows(),
                                       .rotation = rotary_emb_here_->rotation(),
                                       .positions = state.positions(),
                                       .cache = kv_cache_.rows(),
                                       .slots = state.slots(kv_cache_.block_tokens())},
                                      state.stream());
  }

  // The last part of each head.
  void rotate_queries(TensorView q, Pass& pass) {
    rotary_emb_.forward(q,
                        {.num_heads = params_.num_heads,
                         .head_dim = query_dim(),
                         .offset = params_.qk_nope_head_dim},
                        pass);
  }

  // The cache's rows: normalised latent, then the rotated key part.
  void write_cache(TensorView rows, CudaState& state, Pass& pass) {
    const Workspace::Scope scope(pass.workspace);
    const std::int64_t rank = params_.kv_lora_rank;
    const TensorView latents = pass.workspace.f32({rows.rows(), rank});
    kernels::cuda::copy_columns(rows_of(rows), rows_of(latents), rows.rows(), rank, state.stream());
    kv_a_layernorm_.forward(latents, latents, pass);
    kernels::cuda::copy_columns(rows_of(latents), rows_of(rows), rows.rows(), rank, state.stream());
    rotary_emb_.forward(
        rows, {.num_heads = 1, .head_dim = params_.qk_rope_head_dim, .offset = rank}, pass);
    kv_cache_.write(rows, {}, pass);
  }

  void attend_absorbed(TensorView q, TensorView heads, CudaState& state, Pass& pass) {
    const Workspace::Scope scope(pass.workspace);
    const TensorView absorbed = pass.workspace.f32({q.rows(), shape_.num_heads * cache_dim()});
    const TensorView mixed = pass.workspace.f32({q.rows(), shape_.num_heads * shape_.rank});
    const std::size_t scratch_bytes =
        std::max(kernels::cuda::absorb_queries_bytes(shape_, weights_, q.rows()),
                 kernels::cuda::project_values_bytes(shape_, weights_, q.rows()));
    const TensorView scratch =
        pass.workspace.take(DType::U8, {static_cast<std::int64_t>(scratch_bytes)});
    kernels::cuda::absorb_queries(shape_, weights_, q.f32(), absorbed.f32(), q.rows(), scratch.data,
                                  state.stream());
    attend({.num_heads = shape_.num_heads,
            .num_kv_heads = 1,
            .key_dim = cache_dim(),
            .value_dim = shape_.rank,
            .value_offset = 0,
            .window = 0,
            .scale = params_.scale,
            .arithmetic = arithmetic_of(precision_)},
           kv_cache_, absorbed, mixed, state, pass.workspace);
    kernels::cuda::project_values(shape_, weights_, mixed.f32(), rows_of(heads), q.rows(),
                                  scratch.data, state.stream());
  }

  std::string module_;
  MlaParams params_;
  kernels::cuda::MlaShape shape_;
  Device device_;
  Precision precision_;
  Linear* q_proj_;  // or, with q_lora_rank, the three that follow
  Linear* q_a_proj_;
  Norm* q_a_layernorm_;
  Linear* q_b_proj_;
  Linear& kv_a_proj_;
  Norm& kv_a_layernorm_;
  Linear& o_proj_;
  Rope& rotary_emb_;
  const RmsNormCuda* kv_a_layernorm_here_;  // null: it is not of this GPU
  const RopeCuda* rotary_emb_here_;
  KvCacheCuda& kv_cache_;
  Buffer keys_;    // [heads, rank, nope]
  Buffer values_;  // [heads, v, rank]
  kernels::cuda::MlaWeights weights_;
};

}  // namespace

std::unique_ptr<Operator> make_mla_cuda(const BuildContext& context) {
  return std::make_unique<MlaCuda>(context);
}

}  // namespace graft::ops::cuda
