#include "graft/ops/cpu/linear.h"

#include <array>
#include <span>

#include "graft/base/check.h"
#include "graft/kernels/cpu/table.h"
#include "graft/ops/cpu/multiply.h"
#include "graft/ops/cpu/operators.h"
#include "graft/ops/cpu/workers.h"
#include "graft/ops/profiler.h"

namespace graft::ops::cpu {
namespace {

// Null for layers that are not packed, or not here. Whoever measures wants to know each by itself.
const LinearCpu* as_packed(const LinearCall& call, const Pass& pass) {
  const auto* here = dynamic_cast<const LinearCpu*>(call.linear);
  const bool fits = here != nullptr && !here->packed().empty() && pass.profiler == nullptr;
  return fits ? here : nullptr;
}

}  // namespace

LinearCpu::LinearCpu(const BuildContext& context)
    : module_(context.module),
      params_(context.params_as<LinearParams>()),
      repack_(context.bool_kwarg("repack", true)) {}

void LinearCpu::load(WeightProvider& weights) {
  weight_ = weights.get(module_ + ".weight");
  weight_.expect_shape(params_.out_features, params_.in_features);
  if (repack_ && weights.may_repack() && can_pack(weight_)) {
    packed_ = pack({&weight_, 1}, weights).front();
    weight_ = {};
  }
  if (!params_.bias) return;
  const Weight bias = weights.get(module_ + ".bias");
  bias.expect_shape(1, params_.out_features);
  bias_ = bias.decode();
}

void LinearCpu::unload() {
  weight_ = {};
  packed_ = {};
  bias_ = {};
}

void LinearCpu::forward(TensorView x, TensorView y, Pass& pass) {
  const ProfileScope profile(pass, module_);
  if (packed_.empty()) {
    multiply(weight_, x, y, pass);
  } else {
    const PackedProduct product = {.matrix = &packed_, .y = y};
    multiply(x, {&product, 1}, pass);
  }
  add_bias(y);
}

void LinearCpu::add_bias(TensorView y) const {
  if (bias_.empty()) return;
  for (std::int64_t row = 0; row < y.rows(); ++row)
    kernels::cpu::kernels().math.axpy(1.0F, bias_.data(), y.f32_row(row), y.cols());
}

void forward_grouped(TensorView x, std::initializer_list<LinearCall> calls, Pass& pass) {
  GRAFT_DCHECK(calls.size() <= kMaxProducts, calls.size(), " layers");
  std::array<PackedProduct, kMaxProducts> products;
  std::size_t count = 0;
  for (const LinearCall& call : calls) {
    if (const LinearCpu* linear = as_packed(call, pass)) {
      products[count++] = {.matrix = &linear->packed(), .y = call.y};
    } else {
      call.linear->forward(x, call.y, pass);
    }
  }
  if (count == 0) return;
  multiply(x, std::span(products).first(count), pass);
  for (const LinearCall& call : calls) {
    if (const LinearCpu* linear = as_packed(call, pass)) linear->add_bias(call.y);
  }
}

void forward_gated(TensorView x, const LinearCall& gate, const LinearCall& up, Pass& pass) {
  const LinearCpu* gate_here = as_packed(gate, pass);
  const LinearCpu* up_here = as_packed(up, pass);
  if (gate_here != nullptr && up_here != nullptr && !gate_here->has_bias() &&
      !up_here->has_bias()) {
    multiply_gated(x, {.matrix = &gate_here->packed(), .y = gate.y},
                   {.matrix = &up_here->packed(), .y = up.y}, pass);
    return;
  }
  forward_grouped(x, {gate, up}, pass);
  for_each_item(pass.pool, x.rows(), [&](std::int64_t /*worker*/, std::int64_t row) {
    float* values = gate.y.f32_row(row);
    kernels::cpu::kernels().math.silu_mul(values, up.y.f32_row(row), values, gate.y.cols());
  });
}

std::unique_ptr<Operator> make_linear_cpu(const BuildContext& context) {
  return std::make_unique<LinearCpu>(context);
}

}  // namespace graft::ops::cpu
