#include "graft/ops/experts/resident_set.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "graft/base/check.h"

namespace graft::ops {
namespace {

// Tokens after which a choice counts half.
constexpr double kHalfLife = 2048;
// A swap must be worth its copy: the new expert was chosen this much more often, and at least this
// many times more.
constexpr double kMinGain = 1.3;
constexpr double kMinPairs = 8;
constexpr double kMaxUnit = 1e100;

}  // namespace

ResidentSet::ResidentSet(std::int64_t num_experts, std::int64_t num_slots)
    : slots_(index(num_experts), -1),
      is_moving_(index(num_experts), false),
      heat_(index(num_experts), 0.0) {
  GRAFT_CHECK(num_slots >= 0 && num_slots <= num_experts, num_slots, " slots for ", num_experts,
              " experts");
  std::iota(slots_.begin(), slots_.begin() + num_slots, 0);
}

std::vector<std::int64_t> ResidentSet::choose(std::span<const std::uint64_t> pairs) {
  std::vector<std::int64_t> order(slots_.size());
  std::iota(order.begin(), order.end(), 0);
  if (pairs.size() == slots_.size()) {
    std::ranges::stable_sort(order, std::ranges::greater(),
                             [&](std::int64_t expert) { return pairs[index(expert)]; });
  }
  const auto num_slots = std::ranges::count_if(slots_, [](std::int64_t slot) { return slot >= 0; });
  order.resize(static_cast<std::size_t>(num_slots));
  std::ranges::fill(slots_, -1);
  for (std::size_t slot = 0; slot < order.size(); ++slot)
    slots_[index(order[slot])] = static_cast<std::int64_t>(slot);
  return order;
}

void ResidentSet::count(std::int64_t expert, std::int64_t pairs) {
  heat_[index(expert)] += unit_ * static_cast<double>(pairs);
}

void ResidentSet::fade(std::int64_t num_tokens) {
  unit_ *= std::exp2(static_cast<double>(num_tokens) / kHalfLife);
  if (unit_ < kMaxUnit) return;
  for (double& heat : heat_)
    heat /= unit_;
  unit_ = 1.0;
}

void ResidentSet::forget() {
  std::ranges::fill(heat_, 0.0);
  unit_ = 1.0;
}

std::optional<ResidentSet::Swap> ResidentSet::begin_swap() {
  std::int64_t coldest = -1;
  std::int64_t hottest = -1;
  for (std::int64_t expert = 0; expert < num_experts(); ++expert) {
    std::int64_t& best = is_resident(expert) ? coldest : hottest;
    if (is_moving_[index(expert)]) continue;
    const double heat = heat_[index(expert)];
    const bool is_better =
        best < 0 || (is_resident(expert) ? heat < heat_[index(best)] : heat > heat_[index(best)]);
    if (is_better) best = expert;
  }
  if (coldest < 0 || hottest < 0) return std::nullopt;
  const double in = heat_[index(hottest)];
  const double out = heat_[index(coldest)];
  if (in < kMinGain * out || in - out < kMinPairs * unit_) return std::nullopt;
  const Swap swap = {.slot = slots_[index(coldest)], .out = coldest, .in = hottest};
  slots_[index(coldest)] = -1;
  is_moving_[index(hottest)] = true;
  return swap;
}

void ResidentSet::finish(const Swap& swap) {
  is_moving_[index(swap.in)] = false;
  slots_[index(swap.in)] = swap.slot;
}

void ResidentSet::abandon(const Swap& swap) {
  is_moving_[index(swap.in)] = false;
}

std::vector<std::int64_t> ResidentSet::residents() const {
  std::vector<std::int64_t> experts;
  for (std::int64_t expert = 0; expert < num_experts(); ++expert)
    if (is_resident(expert)) experts.push_back(expert);
  return experts;
}

}  // namespace graft::ops
