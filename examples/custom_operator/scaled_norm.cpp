// A custom operator in a plugin library: an RMS norm whose result is multiplied by a factor from
// the rule file. Four parts: the operator class, the factory, the registration, and the exported
// variable.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <graft/ops/plugin.h>  // the plugin contract; includes the operator interfaces

namespace {

namespace ops = graft::ops;

// 1. The operator. A role (norm, linear, attention, …) is an interface in graft/ops/operator.h;
// graft creates one object for every module that a rule assigns to this class.
class ScaledNorm final : public ops::Norm {
 public:
  // `module` is the Hugging Face name, such as "model.layers.3.input_layernorm": the prefix of its
  // weights. `params` holds the configuration values of a norm.
  ScaledNorm(std::string module, const ops::NormParams& params, float factor)
      : module_(std::move(module)), params_(params), factor_(factor) {}

  // Called once, before the first forward. decode() returns floats for every checkpoint format and
  // type. expect_shape() throws an Error that names the weight.
  void load(ops::WeightProvider& weights) override {
    const ops::Weight weight = weights.get(module_ + ".weight");
    weight.expect_shape(1, params_.size);
    weight_ = weight.decode();
  }

  // Called for every forward pass. x and y: [tokens, size] f32. Rows are independent, so the
  // threads of the pass share them; the result of a row must not depend on the thread or the rest
  // of the batch.
  void forward(graft::TensorView x, graft::TensorView y, ops::Pass& pass) override {
    pass.pool.parallel_for(static_cast<std::size_t>(x.rows()), [&](std::size_t row) {
      const auto r = static_cast<std::int64_t>(row);
      norm_row(x.f32_row(r), y.f32_row(r));
    });
  }

 private:
  // y = factor * weight * x / sqrt(mean(x²) + eps). Put your own computation here. y may alias x:
  // read before you write.
  void norm_row(const float* x, float* y) const {
    double sum = 0;
    for (std::size_t i = 0; i < weight_.size(); ++i)
      sum += static_cast<double>(x[i]) * x[i];
    const double mean = sum / static_cast<double>(params_.size);
    const auto scale = static_cast<float>(factor_ / std::sqrt(mean + params_.eps));
    for (std::size_t i = 0; i < weight_.size(); ++i)
      y[i] = weight_[i] * (x[i] * scale);
  }

  std::string module_;
  ops::NormParams params_;
  float factor_;
  std::vector<float> weight_;  // [size]
};

// 2. The factory. `context` describes the module before weights are read. A missing kwarg defaults
// to 1 here; a value that is not a number is an Error that names the kwarg.
std::unique_ptr<ops::Operator> make_scaled_norm(const ops::BuildContext& context) {
  const double factor = context.double_kwarg("factor", 1);
  return std::make_unique<ScaledNorm>(context.module, context.params_as<ops::NormParams>(),
                                      static_cast<float>(factor));
}

// 3. The registration. Rules select it with `class: example.scaled_norm`; use your own prefix to
// avoid name clashes with other plugins. Kwargs that are not listed are rejected before loading.
void add_operators(ops::Registry& registry) {
  registry.add({.name = "example.scaled_norm",
                .role = ops::Role::Norm,
                .device = graft::DeviceType::Cpu,
                .summary = "root mean square norm times a factor",
                .kwargs = {"factor"},
                .make = make_scaled_norm});
}

}  // namespace

// 4. The exported variable that graft looks up. It carries the version of the headers, which graft
// compares before it calls add_operators.
const graft::ops::Plugin graft_plugin = {.add_operators = add_operators};
