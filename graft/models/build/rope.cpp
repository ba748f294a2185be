#include "graft/models/build/rope.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <utility>
#include <vector>

#include "graft/base/check.h"

namespace graft::models {
namespace {

std::vector<double> plain_frequencies(double theta, std::int64_t rotary_dim) {
  std::vector<double> frequencies;
  for (std::int64_t i = 0; i < rotary_dim; i += 2) {
    frequencies.push_back(
        std::pow(theta, -static_cast<double>(i) / static_cast<double>(rotary_dim)));
  }
  return frequencies;
}

// Llama 3: low frequencies are divided by the factor, high ones kept, interpolated between.
void scale_llama3(const RopeConfig& rope, std::vector<double>& frequencies) {
  const auto context = static_cast<double>(rope.original_max_position_embeddings);
  for (double& frequency : frequencies) {
    const double wavelength = 2.0 * std::numbers::pi / frequency;
    const double turns = context / wavelength;
    // Llama 4 has equal factors: nothing between the two is interpolated.
    const bool is_step = rope.high_freq_factor == rope.low_freq_factor;
    const double smooth =
        is_step ? (turns >= rope.high_freq_factor ? 1.0 : 0.0)
                : (turns - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor);
    const double keep = std::clamp(smooth, 0.0, 1.0);
    frequency = (1.0 - keep) * frequency / rope.factor + keep * frequency;
  }
}

// The (fractional) index of the pair that makes `rotations` turns within the original context.
double pair_of_rotations(const RopeConfig& rope, double rotations, std::int64_t rotary_dim) {
  const auto context = static_cast<double>(rope.original_max_position_embeddings);
  return static_cast<double>(rotary_dim) *
         std::log(context / (rotations * 2.0 * std::numbers::pi)) / (2.0 * std::log(rope.theta));
}

// YaRN: high frequencies are kept, low ones divided by the factor, a linear ramp between.
void scale_yarn(const RopeConfig& rope, std::int64_t rotary_dim, std::vector<double>& frequencies) {
  const double fast = pair_of_rotations(rope, rope.beta_fast, rotary_dim);
  const double slow = pair_of_rotations(rope, rope.beta_slow, rotary_dim);
  const double low = std::max(rope.truncate ? std::floor(fast) : fast, 0.0);
  double high =
      std::min(rope.truncate ? std::ceil(slow) : slow, static_cast<double>(rotary_dim - 1));
  if (low == high) high += 0.001;  // avoids a division by zero
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    const double ramp = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    frequencies[i] *= (1.0 - ramp) + ramp / rope.factor;
  }
}

double yarn_magnitude(const RopeConfig& rope) {
  if (rope.attention_factor) return *rope.attention_factor;
  if (rope.mscale != 0.0 && rope.mscale_all_dim != 0.0) {
    return yarn_mscale(rope.factor, rope.mscale) / yarn_mscale(rope.factor, rope.mscale_all_dim);
  }
  return yarn_mscale(rope.factor, 1.0);
}

std::vector<double> divided(std::vector<double> frequencies, std::span<const float> divisors) {
  GRAFT_CHECK(divisors.size() == frequencies.size(), divisors.size(), " divisors of ",
              frequencies.size(), " frequencies");
  for (std::size_t i = 0; i < frequencies.size(); ++i)
    frequencies[i] /= static_cast<double>(divisors[i]);
  return frequencies;
}

std::vector<float> to_f32(const std::vector<double>& values) {
  return {values.begin(), values.end()};
}

}  // namespace

double yarn_mscale(double factor, double mscale) {
  return factor <= 1.0 ? 1.0 : 0.1 * mscale * std::log(factor) + 1.0;
}

ops::RopeParams make_rope(const ModelConfig& config, std::span<const float> freq_factors) {
  const RopeConfig& rope = config.rope;
  std::vector<double> frequencies = plain_frequencies(rope.theta, config.rotary_dim);
  ops::RopeParams params;
  params.rotary_dim = config.rotary_dim;
  params.interleaved = config.rope_interleaved;
  params.theta = rope.theta;
  params.factor = rope.factor;
  params.max_position_embeddings = config.max_position_embeddings;
  switch (rope.kind) {
    case RopeKind::Default:
      break;
    case RopeKind::Linear:
      for (double& frequency : frequencies)
        frequency /= rope.factor;
      break;
    case RopeKind::Dynamic:
      params.dynamic = true;
      break;
    case RopeKind::Llama3:
      scale_llama3(rope, frequencies);
      break;
    case RopeKind::Yarn:
      scale_yarn(rope, config.rotary_dim, frequencies);
      params.magnitude = static_cast<float>(yarn_magnitude(rope));
      break;
    case RopeKind::LongRope:
      params.long_inv_freq = to_f32(divided(frequencies, rope.long_factor));
      frequencies = divided(std::move(frequencies), rope.short_factor);
      params.magnitude = static_cast<float>(rope.attention_factor.value_or(1.0));
      break;
  }
  if (!freq_factors.empty()) frequencies = divided(std::move(frequencies), freq_factors);
  params.inv_freq = to_f32(frequencies);
  return params;
}

ops::RopeParams make_local_rope(const ModelConfig& config) {
  ModelConfig local = config;
  local.rope = RopeConfig();
  local.rope.theta = config.local_rope_theta;
  return make_rope(local, {});
}

}  // namespace graft::models
