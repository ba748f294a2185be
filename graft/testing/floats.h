// For the tests of CPU kernels: random values.

#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace graft::kernels::cpu {

using Floats = std::vector<float>;

// Uniform in [-size, size]; every call continues the sequence.
inline Floats random_floats(std::int64_t count, float size = 2.0F) {
  static std::mt19937 engine(11);
  std::uniform_real_distribution<float> distribution(-size, size);
  Floats values(static_cast<std::size_t>(count));
  for (float& value : values)
    value = distribution(engine);
  return values;
}

}  // namespace graft::kernels::cpu
