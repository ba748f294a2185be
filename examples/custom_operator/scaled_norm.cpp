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

#include <graft/plugin.h>

namespace {

namespace plugin = graft::plugin;

// 1. The operator. A role (norm, linear, attention, …) is an interface in graft/plugin.h; graft
// creates one object for every module that a rule assigns to this class.
class ScaledNorm final : public plugin::Norm {
 public:
  // `module` is the Hugging Face name, such as "model.layers.3.input_layernorm": the prefix of its
  // weights. `params` holds the configuration values of a norm.
  ScaledNorm(std::string module, const plugin::NormParams& params, float factor)
      : module_(std::move(module)), params_(params), factor_(factor) {}

  // Called once, before the first forward. read() returns floats for every checkpoint format and
  // type, and throws an Error that names the weight when its shape is not [1, size].
  void load(plugin::Weights& weights) override {
    weight_ = weights.read(module_ + ".weight", 1, params_.size);
  }

  // Called for every forward pass. x and y: [tokens, size] f32. Rows are independent, so the
  // threads of the pass share them; the result of a row must not depend on the thread or the rest
  // of the batch.
  void forward(plugin::ConstRows x, plugin::Rows y, plugin::Pass& pass) override {
    pass.threads().parallel_for(static_cast<std::size_t>(x.rows), [&](std::size_t row) {
      const auto r = static_cast<std::int64_t>(row);
      norm_row(x.row(r), y.row(r));
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
  plugin::NormParams params_;
  float factor_;
  std::vector<float> weight_;  // [size]
};

// 2. The factory. `context` describes the module before weights are read. A missing kwarg defaults
// to 1 here; a value that is not a number is an Error that names the kwarg.
std::unique_ptr<plugin::Operator> make_scaled_norm(const plugin::BuildContext& context) {
  const double factor = context.double_kwarg("factor", 1);
  return std::make_unique<ScaledNorm>(context.module(), context.params_as<plugin::NormParams>(),
                                      static_cast<float>(factor));
}

// 3. The registration. Rules select it with `class: example.scaled_norm`; use your own prefix to
// avoid name clashes with other plugins. Kwargs that are not listed are rejected before loading.
void add_operators(plugin::Registry& registry) {
  registry.add({.name = "example.scaled_norm",
                .role = plugin::Role::Norm,
                .summary = "root mean square norm times a factor",
                .kwargs = {"factor"},
                .make = make_scaled_norm});
}

}  // namespace

// 4. The exported variable that graft looks up. It carries the version of the headers, which graft
// compares before it calls add_operators.
const plugin::Plugin graft_plugin = {.add_operators = add_operators};
