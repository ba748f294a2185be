#include <string>
#include <utility>

#include "graft/base/check.h"
#include "graft/kernels/cpu/table.h"
#include "graft/ops/cpu/operators.h"
#include "graft/ops/cpu/workers.h"
#include "graft/ops/profiler.h"

namespace graft::ops::cpu {
namespace {

// Rows per work item: a row of a few thousand values takes about 1 us, waking a thread several us.
constexpr std::int64_t kNormRowsPerItem = 32;

class RmsNormCpu final : public Norm {
 public:
  RmsNormCpu(std::string module, const NormParams& params)
      : module_(std::move(module)), params_(params) {}

  void load(WeightProvider& weights) override {
    if (!params_.has_weight) {
      weight_.assign(static_cast<std::size_t>(params_.size), 1.0F);
      return;
    }
    const Weight weight = weights.get(module_ + ".weight");
    weight.expect_shape(1, params_.size);
    weight_ = weight.decode();
  }
  void unload() override { weight_ = {}; }

  void forward(TensorView x, TensorView y, Pass& pass) override {
    const ProfileScope profile(pass, kCpu, module_);
    GRAFT_DCHECK(x.cols() == params_.size && y.rows() == x.rows(), module_);
    const auto eps = static_cast<float>(params_.eps);
    const auto rms_norm = kernels::cpu::kernels().math.rms_norm;
    const std::int64_t num_items = (x.rows() + kNormRowsPerItem - 1) / kNormRowsPerItem;
    for_each_item(pass.pool, num_items, [&](std::int64_t /*worker*/, std::int64_t item) {
      const std::int64_t end = std::min(x.rows(), (item + 1) * kNormRowsPerItem);
      for (std::int64_t row = item * kNormRowsPerItem; row < end; ++row)
        rms_norm(x.f32_row(row), weight_.data(), y.f32_row(row), params_.size, eps);
    });
  }

 private:
  std::string module_;
  NormParams params_;
  std::vector<float> weight_;  // [size]
};

}  // namespace

std::unique_ptr<Operator> make_rms_norm_cpu(const BuildContext& context) {
  return std::make_unique<RmsNormCpu>(context.module, context.params_as<NormParams>());
}

}  // namespace graft::ops::cpu
