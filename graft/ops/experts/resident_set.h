// Which experts of a layer have a copy in GPU memory: those that the router chose most often. Older
// choices count less, so that the set follows the traffic. Counting and selection only; the copies
// are made by hybrid_experts.cpp.

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace graft::ops {

class ResidentSet {
 public:
  ResidentSet() = default;
  ResidentSet(std::int64_t num_experts, std::int64_t num_slots);

  // Places the experts with the most pairs, ties in ascending order, in slots 0, 1, …; without
  // pairs, the first experts. Returns the expert of each slot.
  std::vector<std::int64_t> choose(std::span<const std::uint64_t> pairs);

  // The router chose the expert for that many tokens.
  void count(std::int64_t expert, std::int64_t pairs);
  // That many tokens have passed.
  void fade(std::int64_t num_tokens);
  void forget();  // all counts

  struct Swap {
    std::int64_t slot = 0;
    std::int64_t out = 0;  // the expert that loses the slot
    std::int64_t in = 0;   // the expert that gets it

    bool operator==(const Swap&) const = default;
  };
  // The exchange that saves most, or nullopt when none pays for the copy. It takes `out` from its
  // slot; the slot is empty until finish().
  std::optional<Swap> begin_swap();
  void finish(const Swap& swap);
  void abandon(const Swap& swap);  // its copy failed: the slot stays empty

  bool is_resident(std::int64_t expert) const { return slots_[index(expert)] >= 0; }
  std::vector<std::int64_t> residents() const;  // ascending
  std::int64_t num_experts() const { return static_cast<std::int64_t>(slots_.size()); }

 private:
  static std::size_t index(std::int64_t expert) { return static_cast<std::size_t>(expert); }

  std::vector<std::int64_t> slots_;  // by expert; -1: none
  std::vector<bool> is_moving_;      // by expert: gets a slot at the next finish()
  std::vector<double> heat_;         // by expert: faded number of pairs, in units of `unit_`
  double unit_ = 1.0;  // what a pair of the next pass adds; grows instead of fading all
};

}  // namespace graft::ops
