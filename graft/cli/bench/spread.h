// A handful of measurements in a few numbers.

#pragma once

#include <vector>

namespace graft::cli {

struct Spread {
  double mean = 0;
  double deviation = 0;  // of a sample: divided by one less than the count; 0 for a single value
  double median = 0;     // the mean of the middle two of an even count
  double least = 0;
  double most = 0;
};

// Of at least one value.
Spread spread_of(std::vector<double> values);

// One by one, a[i] / b[i]. Both are of one length; no b is 0.
std::vector<double> ratios(const std::vector<double>& a, const std::vector<double>& b);

}  // namespace graft::cli
