#include "graft/ops/cpu/linear.h"

#include <utility>

#include "graft/kernels/cpu/table.h"
#include "graft/ops/builtin_kwargs.h"
#include "graft/ops/cpu/multiply.h"
#include "graft/ops/cpu/operators.h"
#include "graft/ops/cpu/workers.h"
#include "graft/ops/profiler.h"

namespace graft::ops::cpu {
LinearCpu::LinearCpu(const BuildContext& context)
    : module_(context.module),
      params_(context.params_as<LinearParams>()),
      repack_(context.bool_kwarg(repack_kwarg())) {}

void LinearCpu::load(WeightProvider& weights) {
  weight_ = weights.get(module_ + ".weight");
  weight_.expect_linear(params_.out_features, params_.in_features);
  column_order_ = std::exchange(weight_.column_order, nullptr);
  if (repack_ && weights.packer() != nullptr && can_pack(weight_)) {
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
  column_order_ = {};
  bias_ = {};
}

void LinearCpu::forward(const Activation& activation, TensorView y, Pass& pass) {
  const ProfileScope profile(pass, kCpu, module_);
  const Workspace::Scope scope(pass.workspace);
  const TensorView x = column_order_ ? order_columns(activation.f32, pass) : activation.f32;
  if (packed_.empty()) {
    multiply(weight_, x, y, pass);
  } else {
    const PackedProduct product = {.matrix = &packed_, .y = y};
    multiply(x, {&product, 1}, pass);
  }
  add_bias(y);
}

TensorView LinearCpu::order_columns(TensorView x, Pass& pass) const {
  const TensorView ordered = pass.workspace.f32({x.rows(), x.cols()});
  for_each_item(pass.pool, x.rows(), [&](std::int64_t /*worker*/, std::int64_t row) {
    const float* from = x.f32_row(row);
    float* to = ordered.f32_row(row);
    for (const std::int32_t col : *column_order_)
      *to++ = from[col];
  });
  return ordered;
}

void LinearCpu::add_bias(TensorView y) const {
  if (bias_.empty()) return;
  for (std::int64_t row = 0; row < y.rows(); ++row)
    kernels::cpu::kernels().math.axpy(1.0F, bias_.data(), y.f32_row(row), y.cols());
}

std::unique_ptr<Operator> make_linear_cpu(const BuildContext& context) {
  return std::make_unique<LinearCpu>(context);
}

}  // namespace graft::ops::cpu
