#include <string>

#include "graft/base/error.h"
#include "graft/ops/cuda/attention/attend.h"
#include "graft/ops/cuda/device_weight.h"
#include "graft/ops/cuda/operators.h"
#include "graft/ops/cuda/products.h"
#include "graft/ops/cuda/views.h"

namespace graft::ops::cuda {
namespace {

class AttentionCuda final : public AttentionCore {
 public:
  explicit AttentionCuda(const BuildContext& context)
      : params_(context.params_as<AttentionParams>()),
        module_(context.module),
        device_(context.device),
        precision_(precision_kwarg(context)),
        kv_cache_(cache_of(context)) {}

  void load(WeightProvider& weights) override {
    if (!params_.sinks) return;
    use_gpu(device_.index);
    sinks_ = upload_floats(load_vector(weights, module_ + ".sinks", params_.num_heads), device_,
                           weights);
  }
  void unload() override { sinks_ = {}; }

  void forward(TensorView q, TensorView out, Pass& pass) override {
    attend({.num_heads = params_.num_heads,
            .num_kv_heads = params_.num_key_value_heads,
            .key_dim = params_.head_dim,
            .value_dim = params_.head_dim,
            .value_offset = params_.num_key_value_heads * params_.head_dim,
            .window = params_.sliding_window,
            .chunk = params_.chunk,
            .scale = params_.scale,
            .arithmetic = arithmetic_of(precision_),
            .sinks = reinterpret_cast<const float*>(sinks_.data())},
           kv_cache_, q, out, cuda_context(device_, pass), pass.workspace);
  }

 private:
  AttentionParams params_;
  std::string module_;
  Device device_;
  Precision precision_;
  KvCacheCuda& kv_cache_;
  Buffer sinks_;  // [heads] f32; empty: none
};

}  // namespace

void attend(const kernels::cuda::AttentionShape& shape,
            const KvCacheCuda& cache,
            TensorView queries,
            TensorView out,
            CudaContext& gpu,
            Workspace& workspace) {
  for (const auto& [batch, first_row] : gpu.sequences(cache.block_tokens())) {
    if (batch.num_sequences == 0) continue;
    attend(shape, batch, cache, queries.slice(first_row, batch.num_rows),
           out.slice(first_row, batch.num_rows), gpu, workspace);
  }
}

void attend(const kernels::cuda::AttentionShape& shape,
            const kernels::cuda::AttentionBatch& batch,
            const KvCacheCuda& cache,
            TensorView queries,
            TensorView out,
            CudaContext& gpu,
            Workspace& workspace) {
  attend(shape, batch, cache.rows(), queries, out, gpu, workspace);
}

void attend(const kernels::cuda::AttentionShape& shape,
            const kernels::cuda::AttentionBatch& batch,
            const kernels::cuda::CacheRows& cache,
            TensorView queries,
            TensorView out,
            CudaContext& gpu,
            Workspace& workspace) {
  const Workspace::Scope scope(workspace);
  const kernels::cuda::AttentionPlan plan =
      kernels::cuda::plan_attention(shape, batch, cache.dtype);
  const TensorView scratch =
      workspace.allocate(DType::U8, {static_cast<std::int64_t>(plan.scratch_bytes)});
  kernels::cuda::attention(shape, batch, plan, cache, rows_of(queries), rows_of(out), scratch.data,
                           gpu.stream());
}

KvCacheCuda& cache_of(const BuildContext& context) {
  const Child<KvCache> cache = context.child_as<KvCache>("kv_cache");
  if (!cache.is_native)
    fail(context.module, ": attention on a GPU needs the KV cache operator cuda.kv_cache");
  return static_cast<KvCacheCuda&>(*cache);
}

std::unique_ptr<AttentionCore> make_attention_core(const BuildContext& context) {
  return std::make_unique<AttentionCuda>(context);
}

}  // namespace graft::ops::cuda
