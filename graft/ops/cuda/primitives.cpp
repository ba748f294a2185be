// Primitives on a GPU.

#include "graft/ops/primitives.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "graft/base/check.h"
#include "graft/kernels/cuda/attention/qk_norm_rope_store.h"
#include "graft/kernels/cuda/elementwise.h"
#include "graft/kernels/cuda/linear/lora.h"
#include "graft/kernels/cuda/row_scales.h"
#include "graft/ops/cuda/attention/kv_cache.h"
#include "graft/ops/cuda/linear.h"
#include "graft/ops/cuda/lora.h"
#include "graft/ops/cuda/operators.h"
#include "graft/ops/cuda/products.h"
#include "graft/ops/cuda/rms_norm.h"
#include "graft/ops/cuda/rope.h"
#include "graft/ops/cuda/runtime/cuda_context.h"
#include "graft/ops/cuda/views.h"
#include "graft/ops/profiler.h"

namespace graft::ops::cuda {
namespace {

template <class Op>
bool is_native_or_none(const Child<Op>& child) {
  return !child || child.is_native;
}

// Grouped linear layers are native too.
bool can_fuse(const LinearCall& call) {
  const auto* linear =
      call.linear.is_native ? dynamic_cast<const LinearCuda*>(call.linear.op) : nullptr;
  return linear != nullptr && !linear->has_column_order();
}

// The fused kernel needs this GPU's own norm, RoPE and cache operators, and keeps a head in
// registers.
bool has_kernel(const HeadStore& heads) {
  return is_native_or_none(heads.rope) && heads.cache.is_native &&
         heads.spans.size() <= kernels::cuda::kMaxHeadSpans &&
         std::ranges::all_of(heads.spans, [](const HeadSpan& span) {
           return is_native_or_none(span.norm) && span.size <= kernels::cuda::kMaxHeadSize;
         });
}

kernels::cuda::HeadSpan to_kernel(const HeadSpan& span, bool has_rope) {
  const auto* norm = static_cast<const RmsNormCuda*>(span.norm.op);
  return {.x = rows_of(span.x, span.offset),
          .num_heads = span.num_heads,
          .size = span.size,
          .head_stride = span.head_stride,
          .norm = norm == nullptr ? nullptr : norm->weight(),
          .eps = norm == nullptr ? 0.0F : norm->eps(),
          .rotates = span.rotates && has_rope,
          .rotate_from = span.rotate_from,
          .cache_col = span.cache_col};
}

class CudaPrimitives final : public Primitives {
 public:
  void silu_mul(TensorView gate, TensorView up, Pass& pass) override {
    kernels::cuda::silu_mul(rows_of(gate), rows_of(up), rows_of(gate), gate.rows(), gate.cols(),
                            cuda_context(gate.device, pass).stream());
  }

  void gelu_mul(TensorView gate, TensorView up, Pass& pass) override {
    kernels::cuda::gelu_mul(rows_of(gate), rows_of(up), rows_of(gate), gate.rows(), gate.cols(),
                            cuda_context(gate.device, pass).stream());
  }

  void limited_silu_mul(TensorView gate, TensorView up, float limit, Pass& pass) override {
    kernels::cuda::limited_silu_mul(rows_of(gate), rows_of(up), rows_of(gate), limit, gate.rows(),
                                    gate.cols(), cuda_context(gate.device, pass).stream());
  }

  void add_gated(TensorView y, TensorView x, TensorView gates, Pass& pass) override {
    const kernels::cuda::Stream stream = cuda_context(y.device, pass).stream();
    if (gates.data == nullptr)
      return kernels::cuda::add(rows_of(y), rows_of(x), rows_of(y), y.rows(), y.cols(), stream);
    kernels::cuda::add_gated(gates.f32(), rows_of(x), rows_of(y), y.rows(), y.cols(), stream);
  }

  void copy_columns(TensorView from, TensorView to, Pass& pass) override {
    kernels::cuda::copy_columns(rows_of(from), rows_of(to), from.rows(),
                                std::min(from.cols(), to.cols()),
                                cuda_context(from.device, pass).stream());
  }

  void mul_sigmoid(TensorView y, TensorView gates, Pass& pass) override {
    kernels::cuda::mul_sigmoid(rows_of(gates, gates.cols() - y.cols()), rows_of(y), y.rows(),
                               y.cols(), cuda_context(y.device, pass).stream());
  }

  void scale_rows(TensorView x, TensorView factors, TensorView y, Pass& pass) override {
    kernels::cuda::apply_factors(rows_of(x), factors.f32(), rows_of(y), x.rows(), x.cols(),
                                 cuda_context(x.device, pass).stream());
  }

  void scale_queries(TensorView q, const AttentionParams& params, Pass& pass) override {
    CudaContext& gpu = cuda_context(q.device, pass);
    kernels::cuda::scale_by_position(
        rows_of(q), gpu.positions(),
        {.floor = params.temperature_floor, .scale = params.temperature_scale}, q.rows(), q.cols(),
        gpu.stream());
  }

  std::unique_ptr<IndexerCore> make_indexer(const BuildContext& context) override {
    return make_indexer_core(context);
  }
  std::unique_ptr<AttentionCore> make_attention(const BuildContext& context) override {
    return make_attention_core(context);
  }
  std::unique_ptr<AttentionCore> make_mla_attention(const BuildContext& context) override {
    return make_latent_attention_core(context);
  }
  std::unique_ptr<DeltaNetCore> make_delta_net(const BuildContext& context) override {
    return make_delta_net_core(context);
  }
  std::unique_ptr<AttentionCore> make_compressed_attention(const BuildContext& context) override {
    return make_compressed_attention_core(context);
  }
  std::unique_ptr<CompressorCore> make_compressor(const CompressorParams& params,
                                                  const BuildContext& context) override {
    return make_compressor_core(params, context);
  }

  std::unique_ptr<LoraLayer> make_lora(Device device, const LoraSize& size) override {
    return make_lora_layer(device, size);
  }

  std::span<const Fusion> fusions() const override { return cuda_fusions(); }

  // x is converted once for all layers, and layers of one weight type share a launch; so do the
  // adapters of all layers.
  void linear_group(const Activation& x, std::span<const LinearCall> calls, Pass& pass) override {
    std::vector<Product> products;
    std::vector<const std::string*> names;
    std::vector<LoraAddition> additions;
    for (const LinearCall& call : calls) {
      if (!can_fuse(call)) {
        call.linear->apply(x, call.y, pass);
        continue;
      }
      const auto& linear = static_cast<const LinearCuda&>(*call.linear);
      products.push_back(linear.product(call.y));
      if (linear.is_adapted(pass)) additions.push_back({.layer = linear.lora(), .y = call.y});
      if (pass.profiler != nullptr) names.push_back(&linear.module());
    }
    if (products.empty()) return;
    const std::string name = fused_name(pass, names);
    const ProfileScope profile(pass, x.device(), name);
    multiply(x, products, cuda_context(x.device(), pass), pass.workspace);
    GRAFT_CHECK(additions.empty() || x.has_f32(), "adapters need the input of layers as f32");
    for (std::span<const LoraAddition> rest = additions; !rest.empty();) {
      const std::size_t count = std::min(rest.size(), kernels::cuda::kMaxLoraJobs);
      add_lora_group(x.f32, rest.first(count), pass);
      rest = rest.subspan(count);
    }
  }

  Activation gate_up(const Activation& x,
                     const LinearCall& gate,
                     const LinearCall& up,
                     MlpParams::Gate function,
                     ActivationFormat wanted,
                     Pass& pass) override {
    // The converting kernels have SiLU only.
    if (wanted == ActivationFormat::F32 || function != MlpParams::Gate::Silu)
      return Primitives::gate_up(x, gate, up, function, wanted, pass);
    const std::array calls = {gate, up};
    linear_group(x, calls, pass);
    TensorView no_f32 = gate.y;
    no_f32.data = nullptr;
    if (wanted == ActivationFormat::F16) {
      const F16Rows f16 = allocate_f16(gate.y.rows(), gate.y.cols(), pass.workspace);
      kernels::cuda::silu_mul_panel_rows(rows_of(gate.y), rows_of(up.y),
                                         panel_rows_of(f16, gate.y.rows()), gate.y.cols(),
                                         cuda_context(gate.y.device, pass).stream());
      return {no_f32, f16};
    }
    const Int8Rows int8 = allocate_int8(gate.y.rows(), gate.y.cols(), pass.workspace);
    kernels::cuda::silu_mul_q8(rows_of(gate.y), rows_of(up.y), q8_rows_of(int8), gate.y.rows(),
                               gate.y.cols(), cuda_context(gate.y.device, pass).stream());
    return {no_f32, int8};
  }

  void norm_rope_store(const HeadStore& heads, Pass& pass) override {
    if (!has_kernel(heads)) return Primitives::norm_rope_store(heads, pass);
    CudaContext& gpu = cuda_context(heads.key.device, pass);
    const auto* rope = static_cast<const RopeCuda*>(heads.rope.op);
    const auto& cache = static_cast<const KvCacheCuda&>(*heads.cache);
    std::vector<kernels::cuda::HeadSpan> spans;
    for (const HeadSpan& span : heads.spans)
      spans.push_back(to_kernel(span, rope != nullptr));
    kernels::cuda::qk_norm_rope_store(
        spans,
        {.rows = heads.key.rows(),
         .rotation = rope == nullptr ? kernels::cuda::RopeConfig{} : rope->rotation(),
         .positions = gpu.positions(),
         .cache = cache.rows(),
         .slots = gpu.slots(cache.block_tokens())},
        gpu.stream());
  }
};

}  // namespace

std::shared_ptr<Primitives> make_primitives() {
  return std::make_shared<CudaPrimitives>();
}

}  // namespace graft::ops::cuda
