#include "graft/ops/cpu/attention/top_positions.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <functional>

namespace graft::ops::cpu {
namespace {

// Integers in the order of the scores.
std::uint32_t order_key(float score) {
  const auto bits = std::bit_cast<std::uint32_t>(score + 0.0F);  // -0 becomes 0
  constexpr std::uint32_t kSign = 0x80000000U;
  return (bits & kSign) != 0 ? ~bits : bits | kSign;
}

}  // namespace

void select_top_positions(std::span<const float> scores,
                          std::vector<std::uint32_t>& keys,
                          std::span<std::int32_t> out) {
  const std::size_t count = std::min(scores.size(), out.size());
  std::fill(out.begin() + static_cast<std::ptrdiff_t>(count), out.end(), -1);
  if (count == scores.size()) {
    for (std::size_t i = 0; i < count; ++i)
      out[i] = static_cast<std::int32_t>(i);
    return;
  }
  if (count == 0) return;
  keys.resize(scores.size());
  std::ranges::transform(scores, keys.begin(), order_key);
  const auto last = keys.begin() + static_cast<std::ptrdiff_t>(count - 1);
  std::nth_element(keys.begin(), last, keys.end(), std::greater<>());
  const std::uint32_t threshold = *last;
  // Those before `last` are not below the threshold.
  auto num_equal = 1 + std::count(keys.begin(), last, threshold);
  std::size_t next = 0;
  for (std::size_t i = 0; i < scores.size() && next < count; ++i) {
    const std::uint32_t key = order_key(scores[i]);
    if (key < threshold || (key == threshold && num_equal == 0)) continue;
    if (key == threshold) --num_equal;
    out[next++] = static_cast<std::int32_t>(i);
  }
}

}  // namespace graft::ops::cpu
