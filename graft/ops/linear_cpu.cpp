#include <string>
#include <utility>

#include "graft/kernels/cpu/table.h"
#include "graft/ops/cpu_operators.h"
#include "graft/ops/multiply_cpu.h"
#include "graft/ops/packed_cpu.h"
#include "graft/ops/profiler.h"

namespace graft::ops {
namespace {

class LinearCpu final : public Linear {
 public:
  explicit LinearCpu(const BuildContext& context)
      : module_(context.module),
        params_(context.params_as<LinearParams>()),
        repack_(context.bool_kwarg("repack", true)) {}

  void load(WeightProvider& weights) override {
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
  void unload() override {
    weight_ = {};
    packed_ = {};
    bias_ = {};
  }

  void forward(TensorView x, TensorView y, Pass& pass) override {
    const ProfileScope profile(pass, module_);
    if (packed_.empty()) {
      multiply(weight_, x, y, pass);
    } else {
      multiply(packed_, x, y, pass);
    }
    if (bias_.empty()) return;
    for (std::int64_t row = 0; row < y.rows(); ++row)
      cpu::kernels().math.axpy(1.0F, bias_.data(), y.f32_row(row), y.cols());
  }

 private:
  std::string module_;
  LinearParams params_;
  bool repack_;
  PackedMatrix packed_;      // [out, in], or
  Weight weight_;            // [out, in], as the file stores it
  std::vector<float> bias_;  // [out], empty: none
};

}  // namespace

std::unique_ptr<Operator> make_linear_cpu(const BuildContext& context) {
  return std::make_unique<LinearCpu>(context);
}

}  // namespace graft::ops
