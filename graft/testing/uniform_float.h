// The numbers of std::uniform_real_distribution<float>, without its two long double logarithms per
// number: unoptimized, they are a quarter of the time of the parity tests.

#pragma once

#include <algorithm>
#include <random>

namespace graft {

// In [low, high).
inline float uniform_float(std::mt19937& engine, float low, float high) {
  constexpr float kMaxBelowOne = 0x1.fffffep-1F;
  const float fraction = std::min(static_cast<float>(engine()) * 0x1p-32F, kMaxBelowOne);
  return fraction * (high - low) + low;
}

}  // namespace graft
