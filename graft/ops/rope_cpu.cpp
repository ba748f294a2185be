#include <cmath>
#include <string>
#include <utility>

#include "graft/base/check.h"
#include "graft/ops/cpu_operators.h"
#include "graft/ops/profiler.h"
#include "graft/ops/workers.h"

namespace graft::ops {
namespace {

class RopeCpu final : public Rope {
 public:
  RopeCpu(std::string module, RopeParams params)
      : module_(std::move(module)), params_(std::move(params)), half_(params_.rotary_dim / 2) {
    GRAFT_CHECK(static_cast<std::int64_t>(params_.inv_freq.size()) == half_, module_, ": ",
                params_.inv_freq.size(), " frequencies for ", params_.rotary_dim, " values");
  }

  void load(WeightProvider& /*weights*/) override {}

  void forward(TensorView x, const Heads& heads, Pass& pass) override {
    const ProfileScope profile(pass, module_);
    const Workspace::Scope scope(pass.workspace);
    const std::int64_t num_tokens = x.rows();
    // [workers, rotary_dim]: half cosines, half sines
    const TensorView turns =
        pass.workspace.f32({num_workers(pass.pool, num_tokens), params_.rotary_dim});
    for_each_item(pass.pool, num_tokens, [&](std::int64_t worker, std::int64_t row) {
      float* cosines = turns.f32_row(worker);
      fill_turns(pass.batch.positions[static_cast<std::size_t>(row)], cosines, cosines + half_);
      for (std::int64_t head = 0; head < heads.num_heads; ++head)
        rotate(x.f32_row(row) + heads.offset + head * heads.head_dim, cosines, cosines + half_);
    });
  }

 private:
  // Dynamic NTK stretches the frequencies by the length of the context. Which length? The whole
  // context at the time would make a token's key depend on how its prompt was cut into chunks. So a
  // token at position p counts the p + 1 tokens up to itself: what it sees when it is generated,
  // and the same whenever and with whatever it is computed.
  double stretched_theta(std::int64_t position) const {
    const auto dim = static_cast<double>(params_.rotary_dim);
    const auto max_len = static_cast<double>(params_.max_position_embeddings);
    const auto len = static_cast<double>(position + 1);
    const double stretch = params_.factor * len / max_len - (params_.factor - 1.0);
    return params_.theta * std::pow(stretch, dim / (dim - 2.0));
  }

  void fill_turns(std::int64_t position, float* cosines, float* sines) const {
    const bool stretched = params_.dynamic && position + 1 > params_.max_position_embeddings;
    const double theta = stretched ? stretched_theta(position) : params_.theta;
    for (std::int64_t i = 0; i < half_; ++i) {
      float inv_freq = params_.inv_freq[static_cast<std::size_t>(i)];
      if (stretched) {
        const double exponent =
            static_cast<double>(2 * i) / static_cast<double>(params_.rotary_dim);
        inv_freq = static_cast<float>(1.0 / std::pow(theta, exponent));
      }
      // The angle is rounded to float as in the models' training code, its cosine is not.
      const double angle = static_cast<float>(position) * inv_freq;
      cosines[i] = static_cast<float>(std::cos(angle)) * params_.magnitude;
      sines[i] = static_cast<float>(std::sin(angle)) * params_.magnitude;
    }
  }

  void rotate(float* head, const float* cosines, const float* sines) const {
    const std::int64_t step = params_.interleaved ? 2 : 1;
    const std::int64_t partner = params_.interleaved ? 1 : half_;
    for (std::int64_t i = 0; i < half_; ++i) {
      float& a = head[i * step];
      float& b = head[i * step + partner];
      const float turned = a * cosines[i] - b * sines[i];
      b = b * cosines[i] + a * sines[i];
      a = turned;
    }
  }

  std::string module_;
  RopeParams params_;
  std::int64_t half_;
};

}  // namespace

std::unique_ptr<Operator> make_rope_cpu(const BuildContext& context) {
  return std::make_unique<RopeCpu>(context.module, context.params_as<RopeParams>());
}

}  // namespace graft::ops
