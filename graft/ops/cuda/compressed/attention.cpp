#include <algorithm>
#include <string>

#include "graft/base/error.h"
#include "graft/kernels/cuda/compressed/attended_rows.h"
#include "graft/ops/cuda/attention/attend.h"
#include "graft/ops/cuda/device_weight.h"
#include "graft/ops/cuda/operators.h"
#include "graft/ops/cuda/products.h"
#include "graft/ops/devices/cuda_operators.h"

namespace graft::ops::cuda {
namespace {

// DeepSeek-V4's attention (modules/compressed_attention.cpp): copies what each token attends to
// into packed rows, as sparse latent attention does, and attends to these.
class CompressedAttentionCuda final : public AttentionCore {
 public:
  explicit CompressedAttentionCuda(const BuildContext& context)
      : module_(context.module),
        params_(context.params_as<CompressedAttentionParams>()),
        device_(context.device),
        precision_(precision_kwarg(context)),
        shape_{.window = params_.sliding_window,
               .rate = params_.compress_rate,
               .top_k = params_.index_top_k},
        kv_cache_(cache_of(context)),
        entries_(params_.compress_rate == 0 ? nullptr : &entries_of(context)) {}

  void load(WeightProvider& weights) override {
    use_gpu(device_.index);
    sinks_ = upload_floats(load_vector(weights, module_ + ".sinks", params_.num_heads), device_,
                           weights);
  }
  void unload() override { sinks_ = {}; }

  void forward(TensorView q, TensorView out, Pass& pass) override {
    attend_to_rows(q, {}, out, pass);
  }

  void forward_selected(TensorView q, TensorView selected, TensorView out, Pass& pass) override {
    attend_to_rows(q, selected, out, pass);
  }

 private:
  KvCacheCuda& entries_of(const BuildContext& context) const {
    const Child<KvCache> child = context.child_as<KvCache>("compressor.kv_cache");
    if (!child.is_native)
      fail(module_, ": attention on a GPU needs the KV cache operator cuda.kv_cache");
    auto& entries = static_cast<KvCacheCuda&>(*child);
    const DType dtype = entries.rows().dtype;
    if (dtype != kv_cache_.rows().dtype) {
      fail(module_, ": compressor.kv_cache is ", name(dtype), " and kv_cache ",
           name(kv_cache_.rows().dtype), ": attention on a GPU needs caches of one type");
    }
    return entries;
  }

  kernels::cuda::AttentionShape attention_shape() const {
    return {.num_heads = params_.num_heads,
            .num_kv_heads = 1,
            .key_dim = params_.head_dim,
            .value_dim = params_.head_dim,
            .value_offset = 0,
            .window = 0,
            .scale = params_.scale,
            .arithmetic = arithmetic_of(precision_),
            .sinks = reinterpret_cast<const float*>(sinks_.data())};
  }

  // selected: the entries of an indexer; empty: all.
  void attend_to_rows(TensorView q, TensorView selected, TensorView out, Pass& pass) {
    CudaContext& gpu = cuda_context(device_, pass);
    for (const auto& [batch, first_row] : gpu.sequences(kv_cache_.block_tokens())) {
      if (batch.num_sequences == 0) continue;
      const std::int32_t* chosen =
          selected.data == nullptr
              ? nullptr
              : static_cast<const std::int32_t*>(selected.data) + first_row * params_.index_top_k;
      const std::int64_t step = std::min(batch.num_rows, rows_at_once(batch));
      for (std::int64_t row = 0; row < batch.num_rows; row += step) {
        const kernels::cuda::RowRange rows = {.first = row,
                                              .count = std::min(step, batch.num_rows - row)};
        attend_range(batch, rows, chosen, q.slice(first_row + row, rows.count),
                     out.slice(first_row + row, rows.count), gpu, pass.workspace);
      }
    }
  }

  std::int64_t rows_at_once(const kernels::cuda::AttentionBatch& batch) const {
    const std::size_t row_bytes =
        static_cast<std::size_t>(kernels::cuda::max_attended(shape_, batch)) *
        bytes_of(kv_cache_.rows().dtype, params_.head_dim);
    return std::max<std::int64_t>(1, static_cast<std::int64_t>(kMlaSelectedBytes / row_bytes));
  }

  // selected: of all rows of the batch.
  void attend_range(const kernels::cuda::AttentionBatch& batch,
                    kernels::cuda::RowRange rows,
                    const std::int32_t* selected,
                    TensorView q,
                    TensorView out,
                    CudaContext& gpu,
                    Workspace& workspace) {
    const Workspace::Scope scope(workspace);
    const std::int64_t max_rows = kernels::cuda::max_attended(shape_, batch);
    kernels::cuda::CacheRows packed = kv_cache_.rows();
    const TensorView data =
        workspace.allocate(packed.dtype, {rows.count * max_rows, packed.row_elems()});
    const TensorView arrays = workspace.allocate(DType::I32, {3 * rows.count});
    const kernels::cuda::SelectedRows to = {.data = data.data,
                                            .arrays = static_cast<std::int32_t*>(arrays.data)};
    kernels::cuda::gather_attended(
        shape_, batch,
        {.tokens = packed,
         .entries = entries_ == nullptr ? kernels::cuda::CacheRows{} : entries_->rows()},
        selected, to, rows, gpu.stream());
    packed.data = data.data;
    attend(attention_shape(), kernels::cuda::selected_batch(max_rows, to, rows.count), packed, q,
           out, gpu, workspace);
  }

  std::string module_;
  CompressedAttentionParams params_;
  Device device_;
  Precision precision_;
  kernels::cuda::AttendedShape shape_;
  KvCacheCuda& kv_cache_;
  KvCacheCuda* entries_;  // null: there is no compressor
  Buffer sinks_;          // [heads] f32
};

}  // namespace

std::unique_ptr<AttentionCore> make_compressed_attention_core(const BuildContext& context) {
  return std::make_unique<CompressedAttentionCuda>(context);
}

}  // namespace graft::ops::cuda
