#include "graft/kernels/cuda/mla/mla.h"

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "graft/kernels/cuda/attention/sparse.h"
#include "graft/ops/builtin_kwargs.h"
#include "graft/ops/cuda/attention/attend.h"
#include "graft/ops/cuda/attention/mla_runs.h"
#include "graft/ops/cuda/device_weight.h"
#include "graft/ops/cuda/operators.h"
#include "graft/ops/cuda/products.h"
#include "graft/ops/cuda/views.h"
#include "graft/ops/devices/cuda_operators.h"

namespace graft::ops::cuda {
namespace {

PrefillForm prefill_form(const BuildContext& context) {
  const Kwarg& kwarg = absorb_for_prefill_kwarg();
  if (!context.has_kwarg(kwarg.key)) return PrefillForm::Cheapest;
  return context.bool_kwarg(kwarg) ? PrefillForm::Absorbed : PrefillForm::Expanded;
}

// Multi-head latent attention (modules/mla.cpp). Absorbed: q . K_h c = (K_h^T q) . c, and V_h is
// applied after the sum, so that all heads attend to the latents of the cache. Expanded: computes
// the keys K_h c and values V_h c of the context; for prefill, where it takes fewer products.
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
        form_(prefill_form(context)),
        kv_cache_(cache_of(context)) {}

  void load(WeightProvider& weights) override {
    const Weight weight = weights.get(module_ + ".kv_b_proj.weight");
    weight.expect_shape(shape_.num_heads * (shape_.nope + shape_.value), shape_.rank);
    const DType stored = weight.computed_from.value_or(weight.dtype);
    const bool is_exact = precision_ == Precision::F32 || stored == DType::F32;
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

  bool set_kv_b_lora(LoraLayer* keys, LoraLayer* values) override {
    lora_keys_ = keys;
    lora_values_ = values;
    return true;
  }

  // Adapters of kv_b_proj are added to the rows of the absorbed form.
  void forward(TensorView q, TensorView heads, Pass& pass) override {
    CudaContext& gpu = cuda_context(device_, pass);
    const PrefillForm form = is_used(lora_keys_, pass) ? PrefillForm::Absorbed : form_;
    const std::vector<MlaRun> runs =
        runs_of_pass(shape_, form, pass.batch, gpu, kv_cache_.block_tokens());
    if (runs.empty()) return attend_absorbed(nullptr, 0, q, heads, pass);
    for (const MlaRun& run : runs) {
      const TensorView run_q = q.slice(run.first_row, run.batch.num_rows);
      const TensorView run_heads = heads.slice(run.first_row, run.batch.num_rows);
      if (run.is_expanded) {
        attend_expanded(run, run_q, run_heads, gpu, pass.workspace);
      } else {
        attend_absorbed(&run.batch, run.first_row, run_q, run_heads, pass);
      }
    }
  }

  // Passes without a context above top_k attend to all positions. In others all rows are absorbed.
  void forward_selected(TensorView q, TensorView selected, TensorView heads, Pass& pass) override {
    CudaContext& gpu = cuda_context(device_, pass);
    const auto groups = gpu.sequences(kv_cache_.block_tokens());
    const auto is_sparse = [&](const CudaContext::Sequences& group) {
      return group.batch.num_sequences > 0 && group.batch.max_context > params_.index_top_k;
    };
    if (std::ranges::none_of(groups, is_sparse)) return forward(q, heads, pass);
    for (const auto& [batch, first_row] : groups) {
      if (batch.num_sequences == 0) continue;
      const std::int64_t step = std::min(batch.num_rows, selected_rows_at_once());
      for (std::int64_t row = 0; row < batch.num_rows; row += step) {
        const kernels::cuda::RowRange rows = {.first = row,
                                              .count = std::min(step, batch.num_rows - row)};
        const auto* positions =
            static_cast<const std::int32_t*>(selected.data) + first_row * params_.index_top_k;
        attend_selected(batch, rows, positions, first_row + row, q, heads, pass);
      }
    }
  }

 private:
  using AttendLatents = std::function<void(
      const kernels::cuda::AttentionShape& shape, TensorView absorbed, TensorView mixed)>;

  std::int64_t selected_rows_at_once() const {
    const std::size_t row_bytes = static_cast<std::size_t>(params_.index_top_k) *
                                  bytes_of(kv_cache_.rows().dtype, cache_dim());
    return std::max<std::int64_t>(1, static_cast<std::int64_t>(kMlaSelectedBytes / row_bytes));
  }

  // positions: those selected for all rows of the batch.
  void attend_selected(const kernels::cuda::AttentionBatch& batch,
                       kernels::cuda::RowRange rows,
                       const std::int32_t* positions,
                       std::int64_t first_row,
                       TensorView q,
                       TensorView heads,
                       Pass& pass) {
    CudaContext& gpu = cuda_context(device_, pass);
    Workspace& workspace = pass.workspace;
    const Workspace::Scope scope(workspace);
    kernels::cuda::CacheRows packed = kv_cache_.rows();
    const TensorView data =
        workspace.allocate(packed.dtype, {rows.count * params_.index_top_k, packed.row_elems()});
    const TensorView arrays = workspace.allocate(DType::I32, {3 * rows.count});
    const kernels::cuda::SelectedRows to = {.data = data.data,
                                            .arrays = static_cast<std::int32_t*>(arrays.data)};
    kernels::cuda::gather_selected(params_.index_top_k, batch, packed, positions, to, rows,
                                   gpu.stream());
    packed.data = data.data;
    const kernels::cuda::AttentionBatch own =
        kernels::cuda::selected_batch(params_.index_top_k, to, rows.count);
    absorb(first_row, q.slice(first_row, rows.count), heads.slice(first_row, rows.count), pass,
           [&](const kernels::cuda::AttentionShape& shape, TensorView absorbed, TensorView mixed) {
             attend(shape, own, packed, absorbed, mixed, gpu, workspace);
           });
  }

  std::int64_t cache_dim() const { return params_.kv_lora_rank + params_.qk_rope_head_dim; }

  // batch: the sequences of the rows; null: all of the pass.
  void attend_absorbed(const kernels::cuda::AttentionBatch* batch,
                       std::int64_t first_row,
                       TensorView q,
                       TensorView heads,
                       Pass& pass) {
    CudaContext& gpu = cuda_context(device_, pass);
    Workspace& workspace = pass.workspace;
    absorb(first_row, q, heads, pass,
           [&](const kernels::cuda::AttentionShape& shape, TensorView absorbed, TensorView mixed) {
             if (batch == nullptr) {
               attend(shape, kv_cache_, absorbed, mixed, gpu, workspace);
             } else {
               attend(shape, *batch, kv_cache_, absorbed, mixed, gpu, workspace);
             }
           });
  }

  // Projects the queries into the latent space and the result to the heads' values. Row 0 of both
  // is row first_row of the pass.
  void absorb(std::int64_t first_row,
              TensorView q,
              TensorView heads,
              Pass& pass,
              const AttendLatents& attend_latents) {
    CudaContext& gpu = cuda_context(device_, pass);
    Workspace& workspace = pass.workspace;
    const Workspace::Scope scope(workspace);
    const TensorView absorbed = workspace.f32({q.rows(), shape_.num_heads * cache_dim()});
    const TensorView mixed = workspace.f32({q.rows(), shape_.num_heads * shape_.rank});
    const std::size_t scratch_bytes =
        std::max(kernels::cuda::absorb_queries_bytes(shape_, weights_, q.rows()),
                 kernels::cuda::project_values_bytes(shape_, weights_, q.rows()));
    const TensorView scratch =
        workspace.allocate(DType::U8, {static_cast<std::int64_t>(scratch_bytes)});
    kernels::cuda::absorb_queries(shape_, weights_, q.f32(), absorbed.f32(), q.rows(), scratch.data,
                                  gpu.stream());
    if (is_used(lora_keys_, pass)) {
      lora_keys_->add({q.f32(), q.cols(), shape_.nope + shape_.rope},
                      {absorbed.f32(), absorbed.cols(), cache_dim()}, first_row, q.rows(), pass);
    }
    const kernels::cuda::AttentionShape shape = {.num_heads = shape_.num_heads,
                                                 .num_kv_heads = 1,
                                                 .key_dim = cache_dim(),
                                                 .value_dim = shape_.rank,
                                                 .value_offset = 0,
                                                 .window = 0,
                                                 .scale = params_.scale,
                                                 .arithmetic = arithmetic_of(precision_)};
    attend_latents(shape, absorbed, mixed);
    kernels::cuda::project_values(shape_, weights_, mixed.f32(), rows_of(heads), q.rows(),
                                  scratch.data, gpu.stream());
    if (is_used(lora_values_, pass)) {
      lora_values_->add({mixed.f32(), mixed.cols(), shape_.rank},
                        {heads.f32(), heads.cols(), shape_.value}, first_row, q.rows(), pass);
    }
  }

  void attend_expanded(
      const MlaRun& run, TensorView q, TensorView heads, CudaContext& gpu, Workspace& workspace) {
    const Workspace::Scope scope(workspace);
    kernels::cuda::ExpandedLatents expanded = {
        .dtype = kernels::cuda::expanded_type(shape_, weights_, kv_cache_.rows().dtype,
                                              arithmetic_of(precision_)),
        .rows = run.num_positions};
    const auto allocate = [&](std::size_t bytes) {
      return workspace.allocate(DType::U8, {static_cast<std::int64_t>(bytes)}).data;
    };
    expanded.latents =
        allocate(kernels::cuda::latents_bytes(shape_, expanded.dtype, expanded.rows));
    const std::int64_t group = heads_per_group(expanded);
    expanded.heads =
        allocate(kernels::cuda::heads_bytes(shape_, expanded.dtype, expanded.rows, group));
    kernels::cuda::gather_latents(run.batch, kv_cache_.rows(), expanded, gpu.stream());
    for (std::int64_t head = 0; head < shape_.num_heads; head += group) {
      expanded.first_head = head;
      expanded.num_heads = std::min(group, shape_.num_heads - head);
      const Workspace::Scope group_scope(workspace);
      const kernels::cuda::ExpandedAttention attention =
          kernels::cuda::plan_expanded(shape_, params_.scale, run.batch, expanded);
      void* scratch = allocate(attention.plan.scratch_bytes);
      kernels::cuda::expand_latents(shape_, weights_, expanded, gpu.stream());
      kernels::cuda::attend_expanded(shape_, attention, run.batch, expanded, rows_of(q),
                                     rows_of(heads), scratch, gpu.stream());
    }
  }

  // Groups of equal size.
  std::int64_t heads_per_group(const kernels::cuda::ExpandedLatents& expanded) const {
    const std::size_t bytes = kernels::cuda::heads_bytes(shape_, expanded.dtype, expanded.rows, 1);
    const std::int64_t fitting =
        std::clamp(static_cast<std::int64_t>(kMlaExpandedBytes / std::max<std::size_t>(1, bytes)),
                   std::int64_t{1}, shape_.num_heads);
    const std::int64_t num_groups = (shape_.num_heads + fitting - 1) / fitting;
    return (shape_.num_heads + num_groups - 1) / num_groups;
  }

  std::string module_;
  MlaParams params_;
  kernels::cuda::MlaShape shape_;
  Device device_;
  Precision precision_;
  PrefillForm form_;
  KvCacheCuda& kv_cache_;
  Buffer keys_;    // [heads, rank, nope]
  Buffer values_;  // [heads, v, rank]
  kernels::cuda::MlaWeights weights_;
  LoraLayer* lora_keys_ = nullptr;
  LoraLayer* lora_values_ = nullptr;
};

}  // namespace

std::unique_ptr<AttentionCore> make_latent_attention_core(const BuildContext& context) {
  return std::make_unique<LatentAttentionCuda>(context);
}

}  // namespace graft::ops::cuda
