#include "graft/engine/speculation/acceptance.h"

#include <algorithm>

namespace graft::engine {
namespace {

// Weights of the newest guess and of the steps before.
constexpr double kNewGuess = 0.1;
constexpr double kNewStep = 0.05;
constexpr double kOldSteps = 0.98;
// A step that was interrupted counts as this multiple of the expected seconds at most.
constexpr double kMaxOutlier = 4;
// Below this variance of the rows a slope is noise: one step of a window with a row more.
constexpr double kMinVariance = 0.01;
// A guessed token must be worth this multiple of its time.
constexpr double kMargin = 1.1;

void move_towards(double& value, double target, double share) {
  value += (target - value) * share;
}

}  // namespace

void Acceptance::record(std::int64_t num_accepted, std::int64_t num_compared) {
  move_towards(coverage_, num_compared > 0 ? 1 : 0, kNewStep);
  for (std::int64_t i = 0; i < std::min(num_accepted + 1, num_compared); ++i)
    move_towards(rate_, i < num_accepted ? 1 : 0, kNewGuess);
}

double Acceptance::expected(std::int64_t max_tokens) const {
  double sum = 0;
  double all_right = 1;
  for (std::int64_t i = 0; i < max_tokens; ++i)
    sum += all_right *= rate_;
  return sum;
}

void StepTimes::record(std::int64_t num_rows, double seconds) {
  if (const auto expected = this->seconds(num_rows); expected && *expected > 0)
    seconds = std::min(seconds, kMaxOutlier * *expected);
  const auto x = static_cast<double>(num_rows);
  for (double* sum : {&weight_, &x_, &xx_, &y_, &xy_})
    *sum *= kOldSteps;
  weight_ += 1;
  x_ += x;
  xx_ += x * x;
  y_ += seconds;
  xy_ += x * seconds;
}

std::optional<double> StepTimes::seconds_per_row() const {
  if (weight_ == 0) return std::nullopt;
  const double variance = xx_ / weight_ - x_ / weight_ * (x_ / weight_);
  if (variance < kMinVariance) return std::nullopt;
  const double covariance = xy_ / weight_ - x_ / weight_ * (y_ / weight_);
  return std::max(0.0, covariance / variance);
}

std::optional<double> StepTimes::seconds(std::int64_t num_rows) const {
  const auto slope = seconds_per_row();
  if (!slope) return std::nullopt;
  return y_ / weight_ + *slope * (static_cast<double>(num_rows) - x_ / weight_);
}

std::optional<std::int64_t> worthwhile_tokens(const Acceptance& acceptance,
                                              const StepTimes& times,
                                              std::int64_t num_sequences,
                                              std::int64_t max_tokens) {
  const auto step = times.seconds(num_sequences);
  if (!step || *step <= 0) return std::nullopt;
  const double least =
      kMargin * static_cast<double>(num_sequences) * *times.seconds_per_row() / *step;
  std::int64_t count = 0;
  for (double all_right = acceptance.rate(); count < max_tokens && all_right >= least;
       all_right *= acceptance.rate())
    ++count;
  return acceptance.rate() > 0 ? count : 0;
}

}  // namespace graft::engine
