// An operator of your own, in a library that graft loads: a root mean square norm whose result is
// multiplied by a number from the rule file. Four parts: the class that computes, the function that
// makes one, the description for the registry, and the variable that graft looks for.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <graft/ops/plugin.h>  // the contract; it brings the interfaces of the operators along

namespace {

namespace ops = graft::ops;

// 1. The operator. A role (norm, linear, attention, …) is an interface in graft/ops/operator.h, and
// graft makes one object for every module that a rule gives to this class.
class ScaledNorm final : public ops::Norm {
 public:
  // `module` is the Hugging Face name, "model.layers.3.input_layernorm": weights are called after
  // it. `params` are the numbers of the model's configuration that a norm needs.
  ScaledNorm(std::string module, const ops::NormParams& params, float factor)
      : module_(std::move(module)), params_(params), factor_(factor) {}

  // Called once, before the first forward. Whatever the checkpoint's format and type, decode()
  // gives floats. A wrong shape ends in an error that names the weight.
  void load(ops::WeightProvider& weights) override {
    const ops::Weight weight = weights.get(module_ + ".weight");
    weight.expect_shape(1, params_.size);
    weight_ = weight.decode();
  }

  // Called for every pass. x and y have a row of `size` floats for each token of the batch. Rows do
  // not know of each other, so the threads of the pass share them; a row must come out the same
  // whoever computes it and whatever else is in the batch.
  void forward(graft::TensorView x, graft::TensorView y, ops::Pass& pass) override {
    pass.pool.parallel_for(static_cast<std::size_t>(x.rows()), [&](std::size_t row) {
      const auto r = static_cast<std::int64_t>(row);
      norm_row(x.f32_row(r), y.f32_row(r));
    });
  }

 private:
  // y = factor * weight * x / sqrt(mean(x²) + eps). This is where your own mathematics goes. Note
  // that y may be x: read before you write.
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

// 2. The factory. `context` holds everything known about the module before weights are read. A
// kwarg that the rule does not give is 1 here; text that is no number is an error with its name.
std::unique_ptr<ops::Operator> make_scaled_norm(const ops::BuildContext& context) {
  const double factor = context.double_kwarg("factor", 1);
  return std::make_unique<ScaledNorm>(context.module, context.params_as<ops::NormParams>(),
                                      static_cast<float>(factor));
}

// 3. The description. Rules say `class: example.scaled_norm`; a prefix of your own keeps clear of
// other plugins. Kwargs that are not listed are refused before anything is loaded.
void add_operators(ops::Registry& registry) {
  registry.add({.name = "example.scaled_norm",
                .role = ops::Role::Norm,
                .device = graft::DeviceType::Cpu,
                .summary = "root mean square norm times a factor",
                .kwargs = {"factor"},
                .make = make_scaled_norm});
}

}  // namespace

// 4. The one name that graft looks up. It also carries the version of the headers above, which
// graft compares before it calls add_operators.
const graft::ops::Plugin graft_plugin = {.add_operators = add_operators};
