#include "graft/engine/pooler.h"

#include <algorithm>
#include <cmath>

namespace graft::engine {

void Pooler::add(TensorView rows) {
  const std::int64_t first = pooling_ == Pooling::Last ? rows.rows() - 1 : 0;
  if (pooling_ == Pooling::Last) std::ranges::fill(sum_, 0.0);
  sum_.resize(static_cast<std::size_t>(rows.cols()));
  for (std::int64_t row = first; row < rows.rows(); ++row) {
    const float* values = rows.f32_row(row);
    for (std::size_t i = 0; i < sum_.size(); ++i)
      sum_[i] += static_cast<double>(values[i]);
  }
}

// After normalizing, the sum gives the same result as the mean.
std::vector<float> Pooler::unit_vector() const {
  double squares = 0;
  for (const double value : sum_)
    squares += value * value;
  const double scale = squares > 0 ? 1 / std::sqrt(squares) : 0;
  std::vector<float> out;
  out.reserve(sum_.size());
  for (const double value : sum_)
    out.push_back(static_cast<float>(value * scale));
  return out;
}

}  // namespace graft::engine
