#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "graft/base/check.h"
#include "graft/kernels/cpu/table.h"
#include "graft/ops/cpu/operators.h"
#include "graft/ops/cpu/workers.h"
#include "graft/ops/profiler.h"
#include "graft/ops/weight.h"

namespace graft::ops::cpu {
namespace {

constexpr std::int64_t kMaxStreams = 16;
constexpr std::int64_t kMaxMix = (2 + kMaxStreams) * kMaxStreams;
// Values of each stream that add() mixes at a time.
constexpr std::int64_t kMixedValues = 64;

float sigmoid_of(float x) {
  return 1.0F / (1.0F + std::exp(-x));
}

// The logits of a row: `mult` weights to read the streams, as many to write to them, and the
// matrix that mixes them; the head has the first only.
class HyperConnectionCpu final : public HyperConnection {
 public:
  explicit HyperConnectionCpu(const BuildContext& context)
      : module_(context.module), params_(context.params_as<HyperConnectionParams>()) {
    GRAFT_CHECK(params_.mult > 0 && params_.mult <= kMaxStreams, module_, ": ", params_.mult,
                " streams");
  }

  void load(WeightProvider& weights) override {
    const std::string prefix = module_ + (params_.is_head ? ".hc_" : ".");
    const Weight fn = weights.get(prefix + "fn");
    fn.expect_shape(num_logits(), params_.mult * params_.hidden_size);
    fn_ = fn.decode();
    base_ = load_vector(weights, prefix + "base", num_logits());
    scale_ = load_vector(weights, prefix + "scale", params_.is_head ? 1 : 3);
  }
  void unload() override {
    fn_ = {};
    base_ = {};
    scale_ = {};
  }

  std::int64_t mult() const override { return params_.mult; }

  void replicate(TensorView x, TensorView streams, Pass& /*pass*/) override {
    for (std::int64_t row = 0; row < x.rows(); ++row) {
      for (std::int64_t s = 0; s < params_.mult; ++s)
        std::copy_n(x.f32_row(row), x.cols(), streams.f32_row(row) + s * x.cols());
    }
  }

  void collapse(TensorView streams, TensorView y, TensorView mix, Pass& pass) override {
    const ProfileScope profile(pass, kCpu, module_);
    for_each_item(pass.pool, streams.rows(), [&](std::int64_t /*worker*/, std::int64_t row) {
      std::array<float, kMaxMix> logits;
      const float* x = streams.f32_row(row);
      project(x, logits.data());
      float* to = y.f32_row(row);
      std::fill_n(to, params_.hidden_size, 0.0F);
      const auto eps = static_cast<float>(params_.eps);
      for (std::int64_t s = 0; s < params_.mult; ++s) {
        const float weight = sigmoid_of(logit(logits.data(), s, 0)) + eps;
        kernels::cpu::kernels().math.axpy(weight, x + s * params_.hidden_size, to,
                                          params_.hidden_size);
      }
      if (!params_.is_head) make_mix(logits.data(), mix.f32_row(row));
    });
  }

  void add(TensorView y, TensorView mix, TensorView streams, Pass& pass) override {
    const ProfileScope profile(pass, kCpu, module_);
    for_each_item(pass.pool, y.rows(), [&](std::int64_t /*worker*/, std::int64_t row) {
      for (std::int64_t first = 0; first < params_.hidden_size; first += kMixedValues) {
        const std::int64_t count = std::min(kMixedValues, params_.hidden_size - first);
        add_values(y.f32_row(row) + first, mix.f32_row(row), streams.f32_row(row) + first, count);
      }
    });
  }

 private:
  std::int64_t num_logits() const {
    return params_.is_head ? params_.mult : (2 + params_.mult) * params_.mult;
  }

  float logit(const float* logits, std::int64_t i, std::size_t part) const {
    return logits[i] * scale_[part] + base_[static_cast<std::size_t>(i)];
  }

  // logits = fn * x / rms(x)
  void project(const float* x, float* logits) const {
    const std::int64_t cols = params_.mult * params_.hidden_size;
    double squares = 0.0;
    for (std::int64_t i = 0; i < cols; ++i)
      squares += static_cast<double>(x[i]) * static_cast<double>(x[i]);
    const double mean = squares / static_cast<double>(cols);
    const auto factor = static_cast<float>(1.0 / std::sqrt(mean + params_.norm_eps));
    const kernels::cpu::MathTable& math = kernels::cpu::kernels().math;
    math.matmul({.data = x, .rows = 1, .stride = cols},
                {.data = fn_.data(), .rows = num_logits(), .stride = cols}, cols, logits,
                num_logits());
    math.scale(logits, num_logits(), factor);
  }

  // mix: the weights of the block's output, then the matrix [from, to], whose rows and columns are
  // scaled in turns towards sums of 1.
  void make_mix(const float* logits, float* mix) const {
    const std::int64_t mult = params_.mult;
    const auto eps = static_cast<float>(params_.eps);
    for (std::int64_t s = 0; s < mult; ++s)
      mix[s] = 2.0F * sigmoid_of(logit(logits, mult + s, 1));
    float* matrix = mix + mult;
    for (std::int64_t i = 0; i < mult * mult; ++i)
      matrix[i] = logit(logits, 2 * mult + i, 2);
    const kernels::cpu::MathTable& math = kernels::cpu::kernels().math;
    for (std::int64_t row = 0; row < mult; ++row) {
      float* values = matrix + row * mult;
      const float sum = math.exp_sum(values, mult, math.max(values, mult));
      for (std::int64_t i = 0; i < mult; ++i)
        values[i] = values[i] / sum + eps;
    }
    normalize(matrix, 1, mult, eps);
    for (std::int64_t i = 1; i < params_.sinkhorn_iters; ++i) {
      normalize(matrix, mult, 1, eps);
      normalize(matrix, 1, mult, eps);
    }
  }

  // Divides the lines of the matrix, `line` values apart with elements `step` apart, by their sums.
  void normalize(float* matrix, std::int64_t line, std::int64_t step, float eps) const {
    for (std::int64_t i = 0; i < params_.mult; ++i) {
      float* values = matrix + i * line;
      float sum = 0.0F;
      for (std::int64_t j = 0; j < params_.mult; ++j)
        sum += values[j * step];
      for (std::int64_t j = 0; j < params_.mult; ++j)
        values[j * step] /= sum + eps;
    }
  }

  void add_values(const float* y, const float* mix, float* streams, std::int64_t count) const {
    const std::int64_t mult = params_.mult;
    std::array<float, kMaxStreams * kMixedValues> old;
    for (std::int64_t s = 0; s < mult; ++s)
      std::copy_n(streams + s * params_.hidden_size, count, old.data() + s * kMixedValues);
    for (std::int64_t to = 0; to < mult; ++to) {
      float* stream = streams + to * params_.hidden_size;
      for (std::int64_t i = 0; i < count; ++i)
        stream[i] = mix[to] * y[i];
      for (std::int64_t from = 0; from < mult; ++from) {
        const float weight = mix[mult + from * mult + to];
        const float* values = old.data() + from * kMixedValues;
        for (std::int64_t i = 0; i < count; ++i)
          stream[i] += weight * values[i];
      }
    }
  }

  std::string module_;
  HyperConnectionParams params_;
  std::vector<float> fn_;     // [num_logits, mult * hidden]
  std::vector<float> base_;   // [num_logits]
  std::vector<float> scale_;  // of the three parts of the logits; one for the head
};

}  // namespace

std::unique_ptr<Operator> make_hyper_connection_cpu(const BuildContext& context) {
  return std::make_unique<HyperConnectionCpu>(context);
}

}  // namespace graft::ops::cpu
