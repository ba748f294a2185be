#include "graft/ops/cpu/linear.h"

#include "graft/kernels/cpu/table.h"
#include "graft/ops/builtin_kwargs.h"
#include "graft/ops/cpu/multiply.h"
#include "graft/ops/cpu/operators.h"
#include "graft/ops/profiler.h"

namespace graft::ops::cpu {
LinearCpu::LinearCpu(const BuildContext& context)
    : module_(context.module),
      params_(context.params_as<LinearParams>()),
      repack_(context.bool_kwarg(repack_kwarg())) {}

void LinearCpu::load(WeightProvider& weights) {
  weight_ = weights.get(module_ + ".weight");
  weight_.expect_shape(params_.out_features, params_.in_features);
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
  bias_ = {};
}

void LinearCpu::forward(const Activation& activation, TensorView y, Pass& pass) {
  const ProfileScope profile(pass, kCpu, module_);
  const TensorView x = activation.f32;
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

std::unique_ptr<Operator> make_linear_cpu(const BuildContext& context) {
  return std::make_unique<LinearCpu>(context);
}

}  // namespace graft::ops::cpu
