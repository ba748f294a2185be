#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "graft/kernels/cpu/table.h"
#include "graft/ops/cpu/linear.h"
#include "graft/ops/cpu/operators.h"
#include "graft/ops/cpu/workers.h"
#include "graft/ops/vision/vision_modules.h"

namespace graft::ops::cpu {
namespace {

using Activation = VisionTowerParams::Activation;

constexpr std::int64_t kVisionRowsPerItem = 16;

// Query rows of one head that share a pass over its keys and values.
constexpr std::int64_t kQueryRows = 64;

void activate_row(float* x, std::int64_t n, Activation activation) {
  const auto inverse_sqrt2 = static_cast<float>(1.0 / std::sqrt(2.0));
  const auto sqrt_2_over_pi = static_cast<float>(std::sqrt(2.0 / std::acos(-1.0)));
  for (std::int64_t i = 0; i < n; ++i) {
    const float value = x[i];
    switch (activation) {
      case Activation::QuickGelu:
        x[i] = value / (1.0F + std::exp(-1.702F * value));
        break;
      case Activation::Gelu:
        x[i] = 0.5F * value * (1.0F + std::erf(value * inverse_sqrt2));
        break;
      case Activation::GeluTanh: {
        const float inner = sqrt_2_over_pi * (value + 0.044715F * value * value * value);
        x[i] = 0.5F * value * (1.0F + std::tanh(inner));
        break;
      }
    }
  }
}

class LayerNormCpu final : public Norm {
 public:
  LayerNormCpu(std::string module, const NormParams& params)
      : module_(std::move(module)), params_(params) {}

  void load(WeightProvider& weights) override {
    weight_ = load_vector(weights, module_ + ".weight", params_.size);
    bias_ = load_vector(weights, module_ + ".bias", params_.size);
  }
  void unload() override {
    weight_ = {};
    bias_ = {};
  }

  void forward(TensorView x, TensorView y, Pass& pass) override {
    const std::int64_t num_items = (x.rows() + kVisionRowsPerItem - 1) / kVisionRowsPerItem;
    for_each_item(pass.pool, num_items, [&](std::int64_t /*worker*/, std::int64_t item) {
      const std::int64_t end = std::min(x.rows(), (item + 1) * kVisionRowsPerItem);
      for (std::int64_t row = item * kVisionRowsPerItem; row < end; ++row)
        norm_row(x.f32_row(row), y.f32_row(row));
    });
  }

 private:
  void norm_row(const float* x, float* y) const {
    const std::size_t size = weight_.size();
    double sum = 0;
    for (std::size_t i = 0; i < size; ++i)
      sum += x[i];
    const double mean = sum / static_cast<double>(size);
    double squares = 0;
    for (std::size_t i = 0; i < size; ++i)
      squares += (x[i] - mean) * (x[i] - mean);
    const auto scale =
        static_cast<float>(1.0 / std::sqrt(squares / static_cast<double>(size) + params_.eps));
    const auto center = static_cast<float>(mean);
    for (std::size_t i = 0; i < size; ++i)
      y[i] = (x[i] - center) * scale * weight_[i] + bias_[i];
  }

  std::string module_;
  NormParams params_;
  std::vector<float> weight_;
  std::vector<float> bias_;
};

class VisionCpu final : public VisionPrimitives {
 public:
  std::unique_ptr<Linear> make_linear(const BuildContext& context) override {
    return std::make_unique<LinearCpu>(context);
  }

  std::unique_ptr<Norm> make_layer_norm(const std::string& name,
                                        const NormParams& params,
                                        Device /*device*/) override {
    return std::make_unique<LayerNormCpu>(name, params);
  }

  void activate(TensorView x, Activation activation, Pass& pass) override {
    for_each_item(pass.pool, x.rows(), [&](std::int64_t /*worker*/, std::int64_t row) {
      activate_row(x.f32_row(row), x.cols(), activation);
    });
  }

  // An item is some query rows of one head of one tile.
  void attend(TensorView q,
              TensorView k,
              TensorView v,
              TensorView out,
              const Heads& heads,
              Pass& pass) override {
    const Workspace::Scope scope(pass.workspace);
    const std::int64_t tokens = heads.num_tokens;
    const std::int64_t parts = (tokens + kQueryRows - 1) / kQueryRows;
    const std::int64_t num_items = q.rows() / tokens * heads.num_heads * parts;
    const std::int64_t workers = num_workers(pass.pool, num_items);
    const TensorView scores = pass.workspace.f32({workers * kQueryRows, tokens});
    for_each_item(pass.pool, num_items, [&](std::int64_t worker, std::int64_t item) {
      const std::int64_t head = item / parts % heads.num_heads;
      const std::int64_t tile = item / parts / heads.num_heads;
      const std::int64_t begin = item % parts * kQueryRows;
      const Rows rows = {.first = tile * tokens,
                         .begin = begin,
                         .count = std::min(kQueryRows, tokens - begin),
                         .col = head * heads.head_dim};
      attend_rows({.q = q, .k = k, .v = v, .out = out}, heads, rows,
                  scores.f32_row(worker * kQueryRows));
    });
  }

 private:
  struct Matrices {
    TensorView q;
    TensorView k;
    TensorView v;
    TensorView out;
  };
  struct Rows {
    std::int64_t first = 0;  // of the tile
    std::int64_t begin = 0;  // of the queries, within the tile
    std::int64_t count = 0;
    std::int64_t col = 0;
  };

  // scores: [count, tokens]
  static void attend_rows(const Matrices& in, const Heads& heads, const Rows& rows, float* scores) {
    const kernels::cpu::MathTable& math = kernels::cpu::kernels().math;
    const std::int64_t tokens = heads.num_tokens;
    const std::int64_t stride = in.q.cols();
    const float* queries = in.q.f32_row(rows.first + rows.begin) + rows.col;
    math.matmul({.data = queries, .rows = rows.count, .stride = stride},
                {.data = in.k.f32_row(rows.first) + rows.col, .rows = tokens, .stride = stride},
                heads.head_dim, scores, tokens);
    const float scale = 1.0F / std::sqrt(static_cast<float>(heads.head_dim));
    for (std::int64_t row = 0; row < rows.count; ++row) {
      float* line = scores + row * tokens;
      math.scale(line, tokens, scale);
      const float sum = math.exp_sum(line, tokens, math.max(line, tokens));
      math.scale(line, tokens, 1.0F / sum);
    }
    math.product({.a = scores,
                  .a_row = tokens,
                  .b = in.v.f32_row(rows.first) + rows.col,
                  .ldb = stride,
                  .c = in.out.f32_row(rows.first + rows.begin) + rows.col,
                  .ldc = stride,
                  .m = rows.count,
                  .n = heads.head_dim,
                  .k = tokens});
  }
};

}  // namespace

std::unique_ptr<VisionPrimitives> make_vision_primitives() {
  return std::make_unique<VisionCpu>();
}

std::unique_ptr<Operator> make_vision_tower_cpu(const BuildContext& context) {
  return make_vision_tower(context, make_vision_primitives());
}

std::unique_ptr<Operator> make_projector_cpu(const BuildContext& context) {
  return make_projector(context, make_vision_primitives());
}

}  // namespace graft::ops::cpu
