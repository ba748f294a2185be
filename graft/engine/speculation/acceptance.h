// What decides whether guessing tokens pays: how often the guesses of a sequence are right, and how
// long a step takes with more rows. Both forget old steps.

#pragma once

#include <cstdint>
#include <optional>

namespace graft::engine {

// Of the guesses of one sequence, whether they were verified or only compared with the output.
class Acceptance {
 public:
  // Of num_compared tokens, which is 0 for a step without a guess, the first num_accepted were
  // right.
  void record(std::int64_t num_accepted, std::int64_t num_compared);

  // The probability that a guessed token is right when those before it are.
  double rate() const { return rate_; }
  // The share of steps with a guess.
  double coverage() const { return coverage_; }
  // Tokens that `max_tokens` guessed ones add to a step with a guess.
  double expected(std::int64_t max_tokens) const;

 private:
  double rate_ = 0;
  double coverage_ = 0;
};

// Seconds of decode steps by their rows: a line through the last ones.
class StepTimes {
 public:
  void record(std::int64_t num_rows, double seconds);
  // Nothing while all known steps have had the same number of rows.
  std::optional<double> seconds(std::int64_t num_rows) const;
  std::optional<double> seconds_per_row() const;

 private:
  // Weighted sums: of 1, x, x^2, y and xy, with rows x and seconds y.
  double weight_ = 0;
  double x_ = 0;
  double xx_ = 0;
  double y_ = 0;
  double xy_ = 0;
};

// How many of up to `max_tokens` guessed tokens a sequence should verify beside `num_sequences`
// decoding ones, so that tokens per second rise: each must be right more often than the share of
// the step's time that its row takes. Nothing while the times are unknown.
std::optional<std::int64_t> worthwhile_tokens(const Acceptance& acceptance,
                                              const StepTimes& times,
                                              std::int64_t num_sequences,
                                              std::int64_t max_tokens);

}  // namespace graft::engine
