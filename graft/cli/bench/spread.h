// Summary statistics of a few measurements.

#pragma once

#include <vector>

namespace graft::cli {

struct Spread {
  double mean = 0;
  double deviation = 0;  // sample standard deviation (n - 1); 0 for a single value
  double median = 0;     // mean of the middle two for an even count
  double min = 0;
  double max = 0;
};

// Requires at least one value.
Spread spread_of(std::vector<double> values);

// Elementwise a[i] / b[i]. Requires equal lengths and no 0 in b.
std::vector<double> ratios(const std::vector<double>& a, const std::vector<double>& b);

}  // namespace graft::cli
