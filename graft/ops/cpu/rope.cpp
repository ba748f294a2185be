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

// Cosines and sines of a pass's positions, in the form of the kernels.
struct Turns {
  std::vector<std::int32_t> positions;
  std::vector<float> values;  // [positions, row_elems]
};

// Turns of one set of parameters. All layers of a model ask for those of the same positions, so the
// last ones are kept. May be used by several threads.
class TurnCache {
 public:
  explicit TurnCache(RopeParams params)
      : params_(std::move(params)), half_(params_.rotary_dim / 2) {}

  const RopeParams& params() const { return params_; }
  // Cosines come first, row_elems() / 2 of them.
  std::int64_t row_elems() const { return params_.interleaved ? 4 * half_ : 2 * half_; }

  std::shared_ptr<const Turns> turns(const std::vector<std::int32_t>& positions, ThreadPool& pool) {
    {
      const std::lock_guard lock(mutex_);
      if (last_ != nullptr && last_->positions == positions) return last_;
    }
    auto made = std::make_shared<Turns>();
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

  void fill(std::int64_t position, float* to) const {
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
      put(i, static_cast<float>(std::cos(angle)) * params_.magnitude,
          static_cast<float>(std::sin(angle)) * params_.magnitude, to);
    }
  }

  // As the kernels want them: see rotate_halves and rotate_pairs.
  void put(std::int64_t i, float cosine, float sine, float* to) const {
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
  std::shared_ptr<const Turns> last_;
};

bool same(const RopeParams& a, const RopeParams& b) {
  const auto fields = [](const RopeParams& p) {
    return std::tie(p.rotary_dim, p.interleaved, p.inv_freq, p.magnitude, p.dynamic, p.theta,
                    p.factor, p.max_position_embeddings);
  };
  return fields(a) == fields(b);
}

// Operators are built one by one and know nothing of each other, so those with equal parameters
// meet here: the angles of a token are computed once, not once per layer.
std::shared_ptr<TurnCache> shared_turns(const RopeParams& params) {
  static std::mutex mutex;
  static std::vector<std::weak_ptr<TurnCache>> caches;
  const std::lock_guard lock(mutex);
  std::erase_if(caches, [](const auto& cache) { return cache.expired(); });
  for (const std::weak_ptr<TurnCache>& cache : caches) {
    std::shared_ptr<TurnCache> found = cache.lock();
    if (found != nullptr && same(found->params(), params)) return found;
  }
  auto made = std::make_shared<TurnCache>(params);
  caches.push_back(made);
  return made;
}

class RopeCpu final : public Rope {
 public:
  RopeCpu(std::string module, const RopeParams& params)
      : module_(std::move(module)), half_(params.rotary_dim / 2), cache_(shared_turns(params)) {
    GRAFT_CHECK(static_cast<std::int64_t>(params.inv_freq.size()) == half_, module_, ": ",
                params.inv_freq.size(), " frequencies for ", params.rotary_dim, " values");
  }

  void load(WeightProvider& /*weights*/) override {}

  void forward(TensorView x, const Heads& heads, Pass& pass) override {
    const ProfileScope profile(pass, kCpu, module_);
    const kernels::cpu::MathTable& math = kernels::cpu::kernels().math;
    const auto rotate = cache_->params().interleaved ? math.rotate_pairs : math.rotate_halves;
    const std::shared_ptr<const Turns> turns = cache_->turns(pass.batch.positions, pass.pool);
    const std::int64_t row_elems = cache_->row_elems();
    for_each_item(pass.pool, x.rows(), [&](std::int64_t /*worker*/, std::int64_t row) {
      const float* cosines = turns->values.data() + row * row_elems;
      float* first = x.f32_row(row) + heads.offset;
      for (std::int64_t head = 0; head < heads.num_heads; ++head)
        rotate(first + head * heads.head_dim, cosines, cosines + row_elems / 2, half_);
    });
  }

 private:
  std::string module_;
  std::int64_t half_;
  std::shared_ptr<TurnCache> cache_;
};

}  // namespace

std::unique_ptr<Operator> make_rope_cpu(const BuildContext& context) {
  return std::make_unique<RopeCpu>(context.module, context.params_as<RopeParams>());
}

}  // namespace graft::ops::cpu
