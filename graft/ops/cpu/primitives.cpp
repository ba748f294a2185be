// Primitives on the CPU.

#include "graft/ops/primitives.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <utility>
#include <vector>

#include "graft/base/check.h"
#include "graft/kernels/cpu/table.h"
#include "graft/ops/cpu/linear.h"
#include "graft/ops/cpu/lora.h"
#include "graft/ops/cpu/operators.h"
#include "graft/ops/cpu/workers.h"
#include "graft/ops/profiler.h"

namespace graft::ops::cpu {
namespace {

// Null: not packed, not a LinearCpu, or with columns in another order than x.
const LinearCpu* as_packed(const LinearCall& call) {
  if (!call.linear.is_native) return nullptr;
  const auto& linear = static_cast<const LinearCpu&>(*call.linear);
  return linear.packed().empty() || linear.has_column_order() ? nullptr : &linear;
}

bool is_packed(const LinearParams& params, DType dtype, const Kwargs& kwargs) {
  const auto repack = kwargs.find("repack");
  constexpr std::array<std::string_view, 3> kFalse = {"false", "False", "FALSE"};
  const bool may_repack =
      repack == kwargs.end() || std::ranges::find(kFalse, repack->second) == kFalse.end();
  return may_repack && can_pack(dtype, params.in_features);
}

bool is_packed_without_bias(const LinearParams& params, DType dtype, const Kwargs& kwargs) {
  return !params.bias && is_packed(params, dtype, kwargs);
}

bool is_packed_with_bias(const LinearParams& params, DType dtype, const Kwargs& kwargs) {
  return params.bias && is_packed(params, dtype, kwargs);
}

Fusion one_loop(Role parent, std::vector<std::string_view> children, Fusion::Supports supports) {
  return {.parent = parent,
          .name = "% in one loop",
          .children = std::move(children),
          .supports = supports};
}

// Weights that are not packed are multiplied one by one.
std::vector<Fusion> make_fusions() {
  return {
      one_loop(Role::Attention, {"q_proj", "k_proj", "v_proj"}, is_packed),
      one_loop(Role::Attention, {"q_proj", "kv_a_proj_with_mqa"}, is_packed),
      one_loop(Role::Attention, {"q_a_proj", "kv_a_proj_with_mqa"}, is_packed),
      one_loop(Role::Attention, {"in_proj_qkv", "in_proj_z", "in_proj_b", "in_proj_a"}, is_packed),
      one_loop(Role::Attention, {"q_a_proj", "kv_proj"}, is_packed),
      one_loop(Role::Compressor, {"kv_proj", "gate_proj"}, is_packed),
      one_loop(Role::Indexer, {"kv_proj", "gate_proj"}, is_packed),
      one_loop(Role::Indexer, {"wk", "weights_proj"}, is_packed),
      {.parent = Role::Mlp,
       .name = "%+activation in one loop",
       .children = {"gate_proj", "up_proj"},
       .supports = is_packed_without_bias},
      one_loop(Role::Mlp, {"gate_proj", "up_proj"}, is_packed_with_bias)};
}

class CpuPrimitives final : public Primitives {
 public:
  void silu_mul(TensorView gate, TensorView up, Pass& pass) override {
    for_each_item(pass.pool, gate.rows(), [&](std::int64_t /*worker*/, std::int64_t row) {
      float* values = gate.f32_row(row);
      kernels::cpu::kernels().math.silu_mul(values, up.f32_row(row), values, gate.cols());
    });
  }

  void gelu_mul(TensorView gate, TensorView up, Pass& pass) override {
    for_each_item(pass.pool, gate.rows(), [&](std::int64_t /*worker*/, std::int64_t row) {
      float* values = gate.f32_row(row);
      kernels::cpu::kernels().math.gelu_mul(values, up.f32_row(row), values, gate.cols());
    });
  }

  void add_gated(TensorView y, TensorView x, TensorView gates, Pass& /*pass*/) override {
    const kernels::cpu::MathTable& math = kernels::cpu::kernels().math;
    const float* factors = gates.data == nullptr ? nullptr : gates.f32();
    if (factors != nullptr) math.sigmoid(gates.f32(), gates.rows());
    for (std::int64_t row = 0; row < y.rows(); ++row) {
      const float factor = factors == nullptr ? 1.0F : factors[row];
      math.axpy(factor, x.f32_row(row), y.f32_row(row), y.cols());
    }
  }

  void copy_columns(TensorView from, TensorView to, Pass& /*pass*/) override {
    const std::int64_t cols = std::min(from.cols(), to.cols());
    for (std::int64_t row = 0; row < from.rows(); ++row)
      std::copy_n(from.f32_row(row), cols, to.f32_row(row));
  }

  void mul_sigmoid(TensorView y, TensorView gates, Pass& pass) override {
    const std::int64_t first = gates.cols() - y.cols();
    for_each_item(pass.pool, y.rows(), [&](std::int64_t /*worker*/, std::int64_t row) {
      kernels::cpu::kernels().math.sigmoid_mul(gates.f32_row(row) + first, y.f32_row(row),
                                               y.cols());
    });
  }

  void scale_rows(TensorView x, TensorView factors, TensorView y, Pass& pass) override {
    for_each_item(pass.pool, x.rows(), [&](std::int64_t /*worker*/, std::int64_t row) {
      std::copy_n(x.f32_row(row), x.cols(), y.f32_row(row));
      kernels::cpu::kernels().math.scale(y.f32_row(row), x.cols(), factors.f32()[row]);
      factors.f32()[row] = 1.0F;
    });
  }

  void scale_queries(TensorView q, const AttentionParams& params, Pass& pass) override {
    for (std::int64_t row = 0; row < q.rows(); ++row) {
      const std::int64_t position = pass.batch.positions[static_cast<std::size_t>(row)];
      const std::int64_t steps = (position + 1) / params.temperature_floor;
      const float factor = std::log1p(static_cast<float>(steps)) * params.temperature_scale + 1.0F;
      kernels::cpu::kernels().math.scale(q.f32_row(row), q.cols(), factor);
    }
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

  void limited_silu_mul(TensorView gate, TensorView up, float limit, Pass& pass) override {
    for_each_item(pass.pool, gate.rows(), [&](std::int64_t /*worker*/, std::int64_t row) {
      float* gates = gate.f32_row(row);
      float* ups = up.f32_row(row);
      for (std::int64_t i = 0; i < gate.cols(); ++i) {
        gates[i] = std::min(gates[i], limit);
        ups[i] = std::clamp(ups[i], -limit, limit);
      }
      kernels::cpu::kernels().math.silu_mul(gates, ups, gates, gate.cols());
    });
  }

  std::unique_ptr<LoraLayer> make_lora(Device /*device*/, const LoraSize& size) override {
    return make_lora_layer(size);
  }

  std::span<const Fusion> fusions() const override {
    static const std::vector<Fusion> fusions = make_fusions();
    return fusions;
  }

  // Packed layers go through one parallel loop: x is quantized once, threads synchronize once. So
  // do the adapters of all of them.
  void linear_group(const Activation& x, std::span<const LinearCall> calls, Pass& pass) override {
    GRAFT_DCHECK(calls.size() <= kMaxProducts, calls.size(), " layers");
    std::array<PackedProduct, kMaxProducts> products;
    std::vector<const std::string*> names;
    std::size_t count = 0;
    for (const LinearCall& call : calls) {
      const LinearCpu* linear = as_packed(call);
      if (linear == nullptr) {
        call.linear->apply(x, call.y, pass);
        continue;
      }
      products[count++] = {.matrix = &linear->packed(), .y = call.y};
      if (pass.profiler != nullptr) names.push_back(&linear->module());
    }
    if (count == 0) return;
    const std::string name = fused_name(pass, names);
    const ProfileScope profile(pass, kCpu, name);
    multiply(x.f32, std::span(products).first(count), pass);
    std::vector<LoraAddition> additions;
    for (const LinearCall& call : calls) {
      const LinearCpu* linear = as_packed(call);
      if (linear == nullptr) continue;
      linear->add_bias(call.y);
      if (linear->is_adapted(pass)) additions.push_back({.layer = linear->lora(), .y = call.y});
    }
    if (!additions.empty()) add_lora_group(x.f32, additions, pass);
  }

  Activation gate_up(const Activation& x,
                     const LinearCall& gate,
                     const LinearCall& up,
                     MlpParams::Gate function,
                     ActivationFormat wanted,
                     Pass& pass) override {
    const bool is_adapted = gate.linear->is_adapted(pass) || up.linear->is_adapted(pass);
    const LinearCpu* gate_proj = is_adapted ? nullptr : as_packed(gate);
    const LinearCpu* up_proj = is_adapted ? nullptr : as_packed(up);
    if (gate_proj == nullptr || up_proj == nullptr || gate_proj->has_bias() ||
        up_proj->has_bias()) {
      return Primitives::gate_up(x, gate, up, function, wanted, pass);
    }
    const std::array modules = {&gate_proj->module(), &up_proj->module()};
    const std::string name = fused_name(pass, modules);
    const ProfileScope profile(pass, kCpu, name);
    multiply_gated(x.f32, {.matrix = &gate_proj->packed(), .y = gate.y},
                   {.matrix = &up_proj->packed(), .y = up.y}, function, pass);
    return gate.y;
  }
};

}  // namespace

std::shared_ptr<Primitives> make_primitives() {
  return std::make_shared<CpuPrimitives>();
}

}  // namespace graft::ops::cpu
