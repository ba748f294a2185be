#include "graft/cli/bench/spread.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "graft/base/check.h"

namespace graft::cli {

Spread spread_of(std::vector<double> values) {
  GRAFT_CHECK(!values.empty(), "no values");
  std::ranges::sort(values);
  const std::size_t count = values.size();
  const double mean =
      std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(count);
  double squares = 0;
  for (const double value : values)
    squares += (value - mean) * (value - mean);
  return {.mean = mean,
          .deviation = count > 1 ? std::sqrt(squares / static_cast<double>(count - 1)) : 0,
          .median = (values[(count - 1) / 2] + values[count / 2]) / 2,
          .min = values.front(),
          .max = values.back()};
}

std::vector<double> ratios(const std::vector<double>& a, const std::vector<double>& b) {
  GRAFT_CHECK(a.size() == b.size(), a.size(), " values and ", b.size());
  std::vector<double> out;
  for (std::size_t i = 0; i < a.size(); ++i)
    out.push_back(a[i] / b[i]);
  return out;
}

}  // namespace graft::cli
