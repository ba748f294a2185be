#include <algorithm>
#include <string>

#include "graft/kernels/cuda/attention/sparse.h"
#include "graft/ops/cuda/attention/attend.h"
#include "graft/ops/cuda/device_weight.h"
#include "graft/ops/cuda/operators.h"
#include "graft/ops/cuda/views.h"
#include "graft/ops/devices/cuda_operators.h"

namespace graft::ops::cuda {
namespace {

// Scores are computed in f32 from keys of the cache's dtype.
class IndexerCuda final : public IndexerCore {
 public:
  explicit IndexerCuda(const BuildContext& context)
      : module_(context.module),
        params_(context.params_as<IndexerParams>()),
        device_(context.device),
        shape_{.num_heads = params_.num_heads,
               .head_dim = params_.head_dim,
               .top_k = params_.top_k,
               .scale = params_.scale,
               .rate = params_.compress_rate},
        kv_cache_(cache_of(context)) {}

  void load(WeightProvider& weights) override {
    if (params_.compress_rate > 1) return;  // the compressor norms the keys
    use_gpu(device_.index);
    norm_weight_ = upload(weights, ".k_norm.weight");
    norm_bias_ = upload(weights, ".k_norm.bias");
  }
  void unload() override {
    norm_weight_ = {};
    norm_bias_ = {};
  }

  void norm_keys(TensorView keys, Pass& pass) override {
    kernels::cuda::layer_norm(rows_of(keys),
                              {.weight = reinterpret_cast<const float*>(norm_weight_.data()),
                               .bias = reinterpret_cast<const float*>(norm_bias_.data()),
                               .eps = static_cast<float>(params_.key_norm_eps)},
                              keys.rows(), keys.cols(), cuda_context(device_, pass).stream());
  }

  void select(TensorView q, TensorView weights, TensorView selected, Pass& pass) override {
    CudaContext& gpu = cuda_context(device_, pass);
    for (const auto& [batch, first_row] : gpu.sequences(kv_cache_.block_tokens())) {
      if (batch.num_sequences == 0) continue;
      select_group(batch, q.slice(first_row, batch.num_rows),
                   weights.slice(first_row, batch.num_rows),
                   static_cast<std::int32_t*>(selected.data) + first_row * params_.top_k, gpu,
                   pass.workspace);
    }
  }

 private:
  Buffer upload(WeightProvider& weights, const std::string& name) const {
    return upload_floats(load_vector(weights, module_ + name, params_.head_dim), device_, weights);
  }

  void select_group(const kernels::cuda::AttentionBatch& batch,
                    TensorView q,
                    TensorView weights,
                    std::int32_t* selected,
                    CudaContext& gpu,
                    Workspace& workspace) {
    const Workspace::Scope scope(workspace);
    kernels::cuda::RowRange rows = {.first = 0, .count = batch.num_rows};
    const std::int64_t keys = kernels::cuda::max_keys(shape_, batch);
    if (keys <= params_.top_k) {
      return kernels::cuda::select_positions(shape_, batch, nullptr, selected, rows, gpu.stream());
    }
    const auto row_bytes = static_cast<std::size_t>(keys) * sizeof(float);
    const std::int64_t step = std::clamp(static_cast<std::int64_t>(kIndexScoreBytes / row_bytes),
                                         std::int64_t{1}, batch.num_rows);
    const TensorView scores = workspace.f32({step, keys});
    for (; rows.first < batch.num_rows; rows.first += step) {
      rows.count = std::min(step, batch.num_rows - rows.first);
      kernels::cuda::index_scores(shape_, batch, kv_cache_.rows(), rows_of(q), rows_of(weights),
                                  scores.f32(), rows, gpu.stream());
      kernels::cuda::select_positions(shape_, batch, scores.f32(), selected, rows, gpu.stream());
    }
  }

  std::string module_;
  IndexerParams params_;
  Device device_;
  kernels::cuda::IndexShape shape_;
  KvCacheCuda& kv_cache_;
  Buffer norm_weight_;  // [head_dim] f32
  Buffer norm_bias_;    // [head_dim] f32
};

}  // namespace

std::unique_ptr<IndexerCore> make_indexer_core(const BuildContext& context) {
  return std::make_unique<IndexerCuda>(context);
}

}  // namespace graft::ops::cuda
