#include "graft/kernels/cuda/attention/mla.h"

#include <algorithm>
#include <string>

#include "graft/ops/cuda/attend.h"
#include "graft/ops/cuda/device_weight.h"
#include "graft/ops/cuda/operators.h"
#include "graft/ops/cuda/products.h"
#include "graft/ops/cuda/views.h"

namespace graft::ops::cuda {
namespace {

// Multi-head latent attention (modules/mla.cpp), absorbed: q . K_h c = (K_h^T q) . c, and V_h is
// applied after the sum, so that all heads attend to the latents of the cache.
class LatentAttentionCuda final : public AttentionCore {
 public:
  explicit LatentAttentionCuda(const BuildContext& context)
      : module_(context.module),
        params_(context.params_as<MlaParams>()),
        shape_{.num_heads = params_.num_heads,
               .rank = params_.kv_lora_rank,
               .nope = params_.qk_nope_head_dim,
               .rope = params_.qk_rope_head_dim,
               .value = params_.v_head_dim},
        device_(context.device),
        precision_(precision_kwarg(context)),
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
    const Buffer decoded = upload_floats(weight.decode(), device_, weights);
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

  void forward(TensorView q, TensorView heads, Pass& pass) override {
    CudaContext& gpu = cuda_context(device_, pass);
    const Workspace::Scope scope(pass.workspace);
    const TensorView absorbed = pass.workspace.f32({q.rows(), shape_.num_heads * cache_dim()});
    const TensorView mixed = pass.workspace.f32({q.rows(), shape_.num_heads * shape_.rank});
    const std::size_t scratch_bytes =
        std::max(kernels::cuda::absorb_queries_bytes(shape_, weights_, q.rows()),
                 kernels::cuda::project_values_bytes(shape_, weights_, q.rows()));
    const TensorView scratch =
        pass.workspace.allocate(DType::U8, {static_cast<std::int64_t>(scratch_bytes)});
    kernels::cuda::absorb_queries(shape_, weights_, q.f32(), absorbed.f32(), q.rows(), scratch.data,
                                  gpu.stream());
    attend({.num_heads = shape_.num_heads,
            .num_kv_heads = 1,
            .key_dim = cache_dim(),
            .value_dim = shape_.rank,
            .value_offset = 0,
            .window = 0,
            .scale = params_.scale,
            .arithmetic = arithmetic_of(precision_)},
           kv_cache_, absorbed, mixed, gpu, pass.workspace);
    kernels::cuda::project_values(shape_, weights_, mixed.f32(), rows_of(heads), q.rows(),
                                  scratch.data, gpu.stream());
  }

 private:
  std::int64_t cache_dim() const { return params_.kv_lora_rank + params_.qk_rope_head_dim; }

  std::string module_;
  MlaParams params_;
  kernels::cuda::MlaShape shape_;
  Device device_;
  Precision precision_;
  KvCacheCuda& kv_cache_;
  Buffer keys_;    // [heads, rank, nope]
  Buffer values_;  // [heads, v, rank]
  kernels::cuda::MlaWeights weights_;
};

}  // namespace

std::unique_ptr<AttentionCore> make_latent_attention_core(const BuildContext& context) {
  return std::make_unique<LatentAttentionCuda>(context);
}

}  // namespace graft::ops::cuda
