#include <algorithm>
#include <string>

#include "graft/base/error.h"
#include "graft/ops/cuda/attention/attend.h"
#include "graft/ops/cuda/device_weight.h"
#include "graft/ops/cuda/operators.h"
#include "graft/ops/cuda/products.h"
#include "graft/ops/cuda/views.h"
#include "graft/ops/devices/cuda_operators.h"

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

void attend_rows(const kernels::cuda::AttentionShape& shape,
                 const kernels::cuda::AttentionBatch& batch,
                 const kernels::cuda::CacheRows& cache,
                 kernels::cuda::ConstRows queries,
                 kernels::cuda::Rows out,
                 CudaContext& gpu,
                 Workspace& workspace) {
  const Workspace::Scope scope(workspace);
  const kernels::cuda::AttentionPlan plan =
      kernels::cuda::plan_attention(shape, batch, cache.dtype);
  const TensorView scratch =
      workspace.allocate(DType::U8, {static_cast<std::int64_t>(plan.scratch_bytes)});
  kernels::cuda::attention(shape, batch, plan, cache, queries, out, scratch.data, gpu.stream());
}

// attend() of the prefill sequences over F16 copies of a quantized cache, of as many KV heads at a
// time as kGatheredHeadBytes allows.
void attend_gathered(const kernels::cuda::AttentionShape& shape,
                     kernels::cuda::AttentionBatch batch,
                     const kernels::cuda::CacheRows& cache,
                     kernels::cuda::ConstRows queries,
                     kernels::cuda::Rows out,
                     CudaContext& gpu,
                     Workspace& workspace) {
  const std::int64_t head_cols = shape.key_dim + shape.value_dim;
  const std::int64_t positions = gpu.num_prefill_positions();
  const std::size_t head_bytes = bytes_of(DType::F16, positions * head_cols);
  const kernels::cuda::AttentionBatch in_blocks = batch;
  batch.block_tables = nullptr;
  const std::int64_t group = shape.num_heads / shape.num_kv_heads;
  const std::int64_t at_once = std::clamp<std::int64_t>(
      static_cast<std::int64_t>(kGatheredHeadBytes / head_bytes), 1, shape.num_kv_heads);
  for (std::int64_t first = 0; first < shape.num_kv_heads; first += at_once) {
    const Workspace::Scope scope(workspace);
    const std::int64_t count = std::min(at_once, shape.num_kv_heads - first);
    const TensorView rows = workspace.allocate(DType::F16, {positions, count * head_cols});
    kernels::cuda::gather_heads(
        shape, in_blocks, cache,
        {.to = rows.data, .positions = positions, .first_kv_head = first, .num_kv_heads = count},
        gpu.stream());
    kernels::cuda::AttentionShape heads = shape;
    heads.num_heads = count * group;
    heads.num_kv_heads = count;
    heads.value_offset = count * shape.key_dim;
    if (shape.sinks != nullptr) heads.sinks += first * group;
    const kernels::cuda::CacheRows packed = {.dtype = DType::F16,
                                             .data = rows.data,
                                             .key_size = count * shape.key_dim,
                                             .value_size = count * shape.value_dim};
    attend_rows(heads, batch, packed,
                {queries.data + first * group * shape.key_dim, queries.stride},
                {out.data + first * group * shape.value_dim, out.stride}, gpu, workspace);
  }
}

}  // namespace

void attend(const kernels::cuda::AttentionShape& shape,
            const KvCacheCuda& cache,
            TensorView queries,
            TensorView out,
            CudaContext& gpu,
            Workspace& workspace) {
  for (const auto& [batch, first_row] : gpu.sequences(cache.block_tokens())) {
    if (batch.num_sequences == 0) continue;
    const TensorView own = queries.slice(first_row, batch.num_rows);
    const TensorView to = out.slice(first_row, batch.num_rows);
    if (kernels::cuda::is_gathered(shape, batch, cache.rows().dtype)) {
      attend_gathered(shape, batch, cache.rows(), rows_of(own), rows_of(to), gpu, workspace);
    } else {
      attend(shape, batch, cache, own, to, gpu, workspace);
    }
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
  attend_rows(shape, batch, cache, rows_of(queries), rows_of(out), gpu, workspace);
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
