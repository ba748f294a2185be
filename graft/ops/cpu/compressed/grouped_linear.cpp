#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <utility>

#include "graft/ops/builtin_kwargs.h"
#include "graft/ops/cpu/multiply.h"
#include "graft/ops/cpu/operators.h"
#include "graft/ops/cpu/packed.h"
#include "graft/ops/cpu/workers.h"
#include "graft/ops/profiler.h"

namespace graft::ops::cpu {
namespace {

// A block-diagonal matrix product: the rows of one weight in groups, each with its own part of x.
class GroupedLinearCpu final : public Linear {
 public:
  explicit GroupedLinearCpu(const BuildContext& context)
      : module_(context.module),
        params_(context.params_as<LinearParams>()),
        repack_(context.bool_kwarg(repack_kwarg())) {}

  void load(WeightProvider& weights) override {
    weight_ = weights.get(module_ + ".weight");
    weight_.expect_shape(params_.out_features, params_.in_features);
    const bool has_whole_panels = group_rows() % kOutputStep == 0;
    if (repack_ && has_whole_panels && weights.packer() != nullptr && can_pack(weight_)) {
      packed_ = pack({&weight_, 1}, weights).front();
      weight_ = {};
    }
  }
  void unload() override {
    weight_ = {};
    packed_ = {};
  }

  void forward(const Activation& x, TensorView y, Pass& pass) override {
    const ProfileScope profile(pass, kCpu, module_);
    if (x.rows() == 0) return;
    for (std::int64_t group = 0; group < params_.groups; ++group) {
      const Workspace::Scope scope(pass.workspace);
      if (packed_.empty()) {
        multiply_stored(group, x.f32, y, pass);
      } else {
        multiply_packed(group, x.f32, y, pass);
      }
    }
  }

 private:
  std::int64_t group_rows() const { return params_.out_features / params_.groups; }

  void multiply_stored(std::int64_t group, TensorView x, TensorView y, Pass& pass) const {
    const std::int64_t step = rows_per_block(weight_);
    const std::int64_t num_blocks = (group_rows() + step - 1) / step;
    const TensorView scratch =
        pass.workspace.f32({num_workers(pass.pool, num_blocks), scratch_elems(weight_)});
    const kernels::cpu::RowsF32 rows = {
        .data = x.f32() + group * params_.in_features, .rows = x.rows(), .stride = x.cols()};
    for_each_item(pass.pool, num_blocks, [&](std::int64_t worker, std::int64_t block) {
      const std::int64_t first = block * step;
      const std::int64_t count = std::min(step, group_rows() - first);
      const std::int64_t begin = group * group_rows() + first;
      multiply_block(weight_, begin, count, rows, y.f32() + begin, y.cols(),
                     scratch.f32_row(worker));
    });
  }

  void multiply_packed(std::int64_t group, TensorView x, TensorView y, Pass& pass) const {
    const QuantizedRows quantized(packed_.dtype(), params_.in_features, x.rows(), pass.workspace);
    quantize(group, x, quantized, pass);
    const std::int64_t num_steps = group_rows() / kOutputStep;
    for_each_item(pass.pool, num_steps, [&](std::int64_t /*worker*/, std::int64_t step) {
      const std::int64_t begin = group * group_rows() + step * kOutputStep;
      for (std::int64_t row = 0; row < x.rows(); row += kernels::cpu::kMaxGemmRows) {
        const std::int64_t count = std::min(kernels::cpu::kMaxGemmRows, x.rows() - row);
        multiply_range(packed_, begin, kOutputStep, quantized.from(row), count,
                       y.f32_row(row) + begin, y.cols());
      }
    });
  }

  void quantize(std::int64_t group, TensorView x, const QuantizedRows& out, Pass& pass) const {
    const std::int64_t tile_rows = QuantizedRows::tile_rows();
    const std::int64_t num_tiles = (x.rows() + tile_rows - 1) / tile_rows;
    for_each_item(pass.pool, num_tiles, [&](std::int64_t /*worker*/, std::int64_t tile) {
      std::array<const float*, kernels::cpu::kMaxGemmRows> rows;
      const std::int64_t first = tile * tile_rows;
      const std::int64_t count = std::min(tile_rows, x.rows() - first);
      for (std::int64_t i = 0; i < count; ++i)
        rows[static_cast<std::size_t>(i)] = x.f32_row(first + i) + group * params_.in_features;
      out.quantize(first, rows.data(), count);
    });
  }

  std::string module_;
  LinearParams params_;
  bool repack_;
  PackedMatrix packed_;  // [out, in]; empty: `weight_` is used
  Weight weight_;
};

}  // namespace

std::unique_ptr<Operator> make_grouped_linear_cpu(const BuildContext& context) {
  return std::make_unique<GroupedLinearCpu>(context);
}

}  // namespace graft::ops::cpu
