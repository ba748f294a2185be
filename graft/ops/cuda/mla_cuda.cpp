#include <algorithm>
#include <string>
#include <vector>

#include "graft/kernels/cuda/elementwise.h"
#include "graft/ops/cuda/attend_cuda.h"
#include "graft/ops/cuda/cuda_operators.h"
#include "graft/ops/cuda/device_weight.h"
#include "graft/ops/cuda/products.h"
#include "graft/ops/cuda/views.h"

namespace graft::ops {
namespace {

// Absorbed queries are several times as long as plain ones (128 heads of 576 floats: 295 KB a
// token), so a long prefill goes through in pieces.
constexpr std::int64_t kTokensPerPiece = 512;

// Multi-head latent attention, absorbed: q . K_h c = (K_h^T q) . c, and V_h stands behind the sum,
// so that all heads attend to the latents of the cache. K_h^T and V_h are kept as stacks of
// matrices.
class MlaCuda final : public Attention {
 public:
  explicit MlaCuda(const BuildContext& context)
      : module_(context.module),
        params_(context.params_as<MlaParams>()),
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
        kv_cache_(cache_of(context)) {}

  void load(WeightProvider& weights) override {
    const Weight weight = weights.get(module_ + ".kv_b_proj.weight");
    const std::int64_t nope = params_.qk_nope_head_dim;
    const std::int64_t v = params_.v_head_dim;
    const std::int64_t rank = params_.kv_lora_rank;
    weight.expect_shape(params_.num_heads * (nope + v), rank);
    std::vector<float> keys(static_cast<std::size_t>(params_.num_heads * rank * nope));
    std::vector<float> values(static_cast<std::size_t>(params_.num_heads * v * rank));
    std::vector<float> rows(static_cast<std::size_t>(nope * rank));
    for (std::int64_t head = 0; head < params_.num_heads; ++head) {
      weight.decode_rows(head * (nope + v), nope, rows.data());
      float* turned = keys.data() + head * rank * nope;  // [rank, nope]
      for (std::int64_t n = 0; n < nope; ++n) {
        for (std::int64_t r = 0; r < rank; ++r)
          turned[r * nope + n] = rows[static_cast<std::size_t>(n * rank + r)];
      }
      weight.decode_rows(head * (nope + v) + nope, v, values.data() + head * v * rank);
    }
    const bool is_exact = precision_ == Precision::F32 || weight.dtype == DType::F32;
    const DType dtype = is_exact ? DType::F32 : DType::BF16;
    keys_ = upload_stack(keys, params_.num_heads, rank, nope, dtype, device_);
    values_ = upload_stack(values, params_.num_heads, v, rank, dtype, device_);
    weights.release(weight);
  }
  void unload() override {
    keys_ = {};
    values_ = {};
  }

  void forward(TensorView x, TensorView y, Pass& pass) override {
    CudaState& state = cuda_state(device_, pass);
    const CudaProfileScope profile(state, pass, module_);
    const Workspace::Scope scope(pass.workspace);
    const TensorView q = pass.workspace.f32({x.rows(), params_.num_heads * query_dim()});
    project_queries(x, q, pass);
    write_cache(x, state, pass);
    const TensorView heads = pass.workspace.f32({x.rows(), params_.num_heads * params_.v_head_dim});
    attend_absorbed(q, heads, state, pass);
    o_proj_.forward(heads, y, pass);
  }

 private:
  std::int64_t query_dim() const { return params_.qk_nope_head_dim + params_.qk_rope_head_dim; }
  std::int64_t cache_dim() const { return params_.kv_lora_rank + params_.qk_rope_head_dim; }

  // q[t, heads, nope + rope], the last part rotated
  void project_queries(TensorView x, TensorView q, Pass& pass) {
    if (q_proj_ != nullptr) {
      q_proj_->forward(x, q, pass);
    } else {
      const Workspace::Scope scope(pass.workspace);
      const TensorView low = pass.workspace.f32({x.rows(), params_.q_lora_rank});
      q_a_proj_->forward(x, low, pass);
      q_a_layernorm_->forward(low, low, pass);
      q_b_proj_->forward(low, q, pass);
    }
    rotary_emb_.forward(q,
                        {.num_heads = params_.num_heads,
                         .head_dim = query_dim(),
                         .offset = params_.qk_nope_head_dim},
                        pass);
  }

  // The cache's rows: normalised latent, then the rotated key part.
  void write_cache(TensorView x, CudaState& state, Pass& pass) {
    const Workspace::Scope scope(pass.workspace);
    const std::int64_t rank = params_.kv_lora_rank;
    const TensorView rows = pass.workspace.f32({x.rows(), cache_dim()});
    const TensorView latents = pass.workspace.f32({x.rows(), rank});
    kv_a_proj_.forward(x, rows, pass);
    cuda::copy_columns(rows_of(rows), rows_of(latents), x.rows(), rank, state.stream());
    kv_a_layernorm_.forward(latents, latents, pass);
    cuda::copy_columns(rows_of(latents), rows_of(rows), x.rows(), rank, state.stream());
    rotary_emb_.forward(
        rows, {.num_heads = 1, .head_dim = params_.qk_rope_head_dim, .offset = rank}, pass);
    kv_cache_.write(rows, {}, pass);
  }

  void attend_absorbed(TensorView q, TensorView heads, CudaState& state, Pass& pass) {
    const Workspace::Scope scope(pass.workspace);
    const TensorView absorbed = pass.workspace.f32({q.rows(), params_.num_heads * cache_dim()});
    const TensorView mixed =
        pass.workspace.f32({q.rows(), params_.num_heads * params_.kv_lora_rank});
    absorb_queries(q, absorbed, state, pass);
    attend({.num_heads = params_.num_heads,
            .num_kv_heads = 1,
            .key_dim = cache_dim(),
            .value_dim = params_.kv_lora_rank,
            .value_offset = 0,
            .window = 0,
            .scale = params_.scale},
           kv_cache_, absorbed, mixed, state, pass.workspace);
    multiply({.stack = values_.matrix(),
              .out = params_.v_head_dim,
              .matrix_bytes = values_.matrix_bytes(),
              .batch = params_.num_heads,
              .rows = q.rows(),
              .x = rows_of(mixed),
              .x_batch_stride = params_.kv_lora_rank,
              .y = rows_of(heads),
              .y_batch_stride = params_.v_head_dim},
             precision_, state, pass.workspace);
  }

  // absorbed[t, heads, rank + rope]: K_h^T times the plain part of q, then its rotated part.
  void absorb_queries(TensorView q, TensorView absorbed, CudaState& state, Pass& pass) {
    multiply({.stack = keys_.matrix(),
              .out = params_.kv_lora_rank,
              .matrix_bytes = keys_.matrix_bytes(),
              .batch = params_.num_heads,
              .rows = q.rows(),
              .x = rows_of(q),
              .x_batch_stride = query_dim(),
              .y = rows_of(absorbed),
              .y_batch_stride = cache_dim()},
             precision_, state, pass.workspace);
    const cuda::Rows rotated = {.data = q.f32() + params_.qk_nope_head_dim, .stride = query_dim()};
    const cuda::Rows to = {.data = absorbed.f32() + params_.kv_lora_rank, .stride = cache_dim()};
    cuda::copy_columns(rotated, to, q.rows() * params_.num_heads, params_.qk_rope_head_dim,
                       state.stream());
  }

  std::string module_;
  MlaParams params_;
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
  KvCacheCuda& kv_cache_;
  DeviceWeight keys_;    // [heads][rank, nope]
  DeviceWeight values_;  // [heads][v, rank]
};

}  // namespace

std::unique_ptr<Operator> make_mla_cuda(const BuildContext& context) {
  return std::make_unique<MlaCuda>(context);
}

}  // namespace graft::ops
