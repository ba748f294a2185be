#include <cmath>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "graft/base/check.h"
#include "graft/kernels/cpu/table.h"
#include "graft/ops/cpu/operators.h"
#include "graft/ops/cpu/workers.h"
#include "graft/ops/profiler.h"

namespace graft::ops::cpu {
namespace {

// Cosines and sines of a pass's positions, in the layout of the kernels.
struct Rotations {
  std::vector<std::int32_t> positions;
  std::vector<float> values;  // [positions, row_elems]
};

// Caches the rotations of the last pass for one set of parameters: all layers of a model use the
// same positions. Thread-safe.
class RotationCache {
 public:
  explicit RotationCache(RopeParams params)
      : params_(std::move(params)), half_(params_.rotary_dim / 2) {}

  const RopeParams& params() const { return params_; }
  // Floats per position: row_elems() / 2 cosines, then as many sines.
  std::int64_t row_elems() const { return params_.interleaved ? 4 * half_ : 2 * half_; }

  std::shared_ptr<const Rotations> rotations(const std::vector<std::int32_t>& positions,
                                             ThreadPool& pool) {
    {
      const std::lock_guard lock(mutex_);
      if (last_ != nullptr && last_->positions == positions) return last_;
    }
    auto made = std::make_shared<Rotations>();
    made->positions = positions;
    const auto num_rows = static_cast<std::int64_t>(positions.size());
    made->values.resize(static_cast<std::size_t>(num_rows * row_elems()));
    for_each_item(pool, num_rows, [&](std::int64_t /*worker*/, std::int64_t row) {
      fill(positions[static_cast<std::size_t>(row)], made->values.data() + row * row_elems());
    });
    const std::lock_guard lock(mutex_);
    last_ = made;
    return made;
  }

 private:
  // Dynamic NTK scales theta by the context length. Using the whole context would make a key depend
  // on the prefill chunks, so the token at position p uses length p + 1, its context when decoded.
  double scaled_theta(std::int64_t position) const {
    const auto dim = static_cast<double>(params_.rotary_dim);
    const auto max_len = static_cast<double>(params_.max_position_embeddings);
    const auto len = static_cast<double>(position + 1);
    const double scale = params_.factor * len / max_len - (params_.factor - 1.0);
    return params_.theta * std::pow(scale, dim / (dim - 2.0));
  }

  void fill(std::int32_t flagged_position, float* to) const {
    const bool is_long = !params_.long_inv_freq.empty() && (flagged_position & kLongRopeFlag) != 0;
    const std::int64_t position = is_long ? flagged_position - kLongRopeFlag : flagged_position;
    const std::vector<float>& frequencies = is_long ? params_.long_inv_freq : params_.inv_freq;
    const bool is_scaled = params_.dynamic && position + 1 > params_.max_position_embeddings;
    const double theta = is_scaled ? scaled_theta(position) : params_.theta;
    for (std::int64_t i = 0; i < half_; ++i) {
      float inv_freq = frequencies[static_cast<std::size_t>(i)];
      if (is_scaled) {
        const double exponent =
            static_cast<double>(2 * i) / static_cast<double>(params_.rotary_dim);
        inv_freq = static_cast<float>(1.0 / std::pow(theta, exponent));
      }
      // The angle is rounded to f32 as in the models' training code; cos and sin are computed in
      // f64.
      const double angle = static_cast<float>(position) * inv_freq;
      store(i, static_cast<float>(std::cos(angle)) * params_.magnitude,
            static_cast<float>(std::sin(angle)) * params_.magnitude, to);
    }
  }

  // The layout of rope_halves and, interleaved, of rope_pairs.
  void store(std::int64_t i, float cosine, float sine, float* to) const {
    if (!params_.interleaved) {
      to[i] = cosine;
      to[half_ + i] = sine;
      return;
    }
    to[2 * i] = to[2 * i + 1] = cosine;
    to[2 * half_ + 2 * i] = -sine;
    to[2 * half_ + 2 * i + 1] = sine;
  }

  RopeParams params_;
  std::int64_t half_;
  std::mutex mutex_;
  std::shared_ptr<const Rotations> last_;
};

bool same(const RopeParams& a, const RopeParams& b) {
  const auto fields = [](const RopeParams& p) {
    return std::tie(p.rotary_dim, p.interleaved, p.inv_freq, p.magnitude, p.dynamic, p.theta,
                    p.factor, p.max_position_embeddings, p.long_inv_freq);
  };
  return fields(a) == fields(b);
}

// The cache shared by all operators with equal parameters, so that the angles of a position are
// computed once, not once per layer.
std::shared_ptr<RotationCache> shared_rotations(const RopeParams& params) {
  static std::mutex mutex;
  static std::vector<std::weak_ptr<RotationCache>> caches;
  const std::lock_guard lock(mutex);
  std::erase_if(caches, [](const auto& cache) { return cache.expired(); });
  for (const std::weak_ptr<RotationCache>& cache : caches) {
    std::shared_ptr<RotationCache> found = cache.lock();
    if (found != nullptr && same(found->params(), params)) return found;
  }
  auto made = std::make_shared<RotationCache>(params);
  caches.push_back(made);
  return made;
}

class RopeCpu final : public Rope {
 public:
  RopeCpu(std::string module, const RopeParams& params)
      : module_(std::move(module)), half_(params.rotary_dim / 2), cache_(shared_rotations(params)) {
    GRAFT_CHECK(static_cast<std::int64_t>(params.inv_freq.size()) == half_, module_, ": ",
                params.inv_freq.size(), " frequencies for ", params.rotary_dim, " values");
    GRAFT_CHECK(
        params.long_inv_freq.empty() || params.long_inv_freq.size() == params.inv_freq.size(),
        module_, ": ", params.long_inv_freq.size(), " frequencies of long sequences");
  }

  void load(WeightProvider& /*weights*/) override {}

  void forward(TensorView x, const Heads& heads, Pass& pass) override {
    const ProfileScope profile(pass, kCpu, module_);
    const kernels::cpu::MathTable& math = kernels::cpu::kernels().math;
    const auto rotate = cache_->params().interleaved ? math.rope_pairs : math.rope_halves;
    const std::shared_ptr<const Rotations> rotations =
        cache_->rotations(pass.batch.positions, pass.pool);
    const std::int64_t row_elems = cache_->row_elems();
    for_each_item(pass.pool, x.rows(), [&](std::int64_t /*worker*/, std::int64_t row) {
      const float* cosines = rotations->values.data() + row * row_elems;
      float* first = x.f32_row(row) + heads.offset;
      for (std::int64_t head = 0; head < heads.num_heads; ++head)
        rotate(first + head * heads.head_dim, cosines, cosines + row_elems / 2, half_);
    });
  }

 private:
  std::string module_;
  std::int64_t half_;
  std::shared_ptr<RotationCache> cache_;
};

}  // namespace

std::unique_ptr<Operator> make_rope_cpu(const BuildContext& context) {
  return std::make_unique<RopeCpu>(context.module, context.params_as<RopeParams>());
}

}  // namespace graft::ops::cpu
