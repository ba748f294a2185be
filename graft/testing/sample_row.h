// For tests: samples as kernels::RowSampling says, in double precision and by sorting.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "graft/kernels/sampling_types.h"

namespace graft::ops::testing {

inline std::vector<double> edited_logits(std::span<const float> logits,
                                         const kernels::RowSampling& row,
                                         std::span<const kernels::LogitEdit> edits,
                                         std::span<const std::uint32_t> masks = {}) {
  std::vector<double> edited(logits.begin(), logits.end());
  if (row.masks_unedited != 0) std::ranges::fill(edited, -std::numeric_limits<double>::infinity());
  for (const kernels::LogitEdit& edit : edits.subspan(static_cast<std::size_t>(row.first_edit),
                                                      static_cast<std::size_t>(row.num_edits))) {
    const auto token = static_cast<std::size_t>(edit.token);
    float logit = logits[token] + edit.bias;
    logit = logit > 0 ? logit / edit.repetition : logit * edit.repetition;
    edited[token] = static_cast<double>(logit - edit.penalty);
  }
  for (std::size_t token = 0; row.first_mask >= 0 && token < edited.size(); ++token) {
    const std::uint32_t word = masks[static_cast<std::size_t>(row.first_mask) + token / 32];
    if ((word >> token % 32 & 1U) == 0) edited[token] = -std::numeric_limits<double>::infinity();
  }
  return edited;
}

// The probability of every token; empty: sampling fails.
inline std::vector<double> sampling_distribution(std::span<const float> logits,
                                                 const kernels::RowSampling& row,
                                                 std::span<const kernels::LogitEdit> edits,
                                                 std::span<const std::uint32_t> masks = {}) {
  const std::vector<double> values = edited_logits(logits, row, edits, masks);
  if (std::ranges::any_of(values, [](double value) { return std::isnan(value); })) return {};
  const double max = *std::ranges::max_element(values);
  if (!std::isfinite(max)) return {};
  std::vector<std::size_t> order(values.size());
  for (std::size_t i = 0; i < order.size(); ++i)
    order[i] = i;
  std::ranges::stable_sort(order, [&](auto a, auto b) { return values[a] > values[b]; });
  std::vector<double> probs(values.size(), 0.0);
  if (row.temperature == 0.0F) {
    probs[order.front()] = 1.0;
    return probs;
  }
  if (row.top_k > 0) order.resize(std::min(order.size(), static_cast<std::size_t>(row.top_k)));
  double sum = 0;
  for (const std::size_t token : order) {
    const double prob = std::exp((values[token] - max) / static_cast<double>(row.temperature));
    if (prob < static_cast<double>(row.min_p)) continue;
    probs[token] = prob;
    sum += prob;
  }
  double kept = 0;
  for (const std::size_t token : order) {
    if (kept >= row.top_p * sum) probs[token] = 0;
    kept += probs[token];
  }
  sum = 0;
  for (const double prob : probs)
    sum += prob;
  for (double& prob : probs)
    prob /= sum;
  return probs;
}

// -1: sampling fails.
inline std::int32_t sample_row(std::span<const float> logits,
                               const kernels::RowSampling& row,
                               std::span<const kernels::LogitEdit> edits,
                               std::span<const std::uint32_t> masks = {}) {
  const std::vector<double> probs = sampling_distribution(logits, row, edits, masks);
  double left = row.draw;
  for (std::size_t token = 0; token < probs.size(); ++token) {
    left -= probs[token];
    if (left < 0) return static_cast<std::int32_t>(token);
  }
  if (probs.empty()) return -1;
  return static_cast<std::int32_t>(std::ranges::max_element(probs) - probs.begin());
}

}  // namespace graft::ops::testing
