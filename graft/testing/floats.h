// For the tests of CPU kernels: random values.

#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "graft/testing/uniform_float.h"

namespace graft::kernels::cpu {

using Floats = std::vector<float>;

// Uniform in [-size, size]; every call continues the sequence.
inline Floats random_floats(std::int64_t count, float size = 2.0F) {
  static std::mt19937 engine(11);
  Floats values(static_cast<std::size_t>(count));
  for (float& value : values)
    value = uniform_float(engine, -size, size);
  return values;
}

}  // namespace graft::kernels::cpu
