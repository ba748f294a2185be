// Hash table from a pair of symbols to its rank and merged token. Open addressing on 64-bit keys of
// two ids: most lookups touch one cache line, and no strings are compared.

#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace graft::tokenizer {

struct PairMerge {
  std::uint32_t rank;  // lower ranks merge first
  std::int32_t id;     // of the merged token
};

class PairTable {
 public:
  static constexpr std::uint32_t kNoRank = std::numeric_limits<std::uint32_t>::max();

  // All ids must be below `num_ids`.
  PairTable(std::size_t num_pairs, std::size_t num_ids)
      : sides_(num_ids, 0),
        slots_(std::bit_ceil(num_pairs * 2 + 2)),
        shift_(64 - std::countr_zero(slots_.size())) {}

  // False and no change if the pair already exists.
  bool insert(std::int32_t left, std::int32_t right, PairMerge merge) {
    const std::uint64_t key = key_of(left, right);
    std::size_t i = first_slot(key);
    for (; slots_[i].merge.rank != kNoRank; i = (i + 1) & (slots_.size() - 1)) {
      if (slots_[i].key == key) return false;
    }
    slots_[i] = {key, merge};
    sides_[static_cast<std::size_t>(left)] |= kLeft;
    sides_[static_cast<std::size_t>(right)] |= kRight;
    return true;
  }

  // The rank is kNoRank if the pair does not merge.
  PairMerge find(std::int32_t left, std::int32_t right) const {
    // Most long tokens never merge; this table of one byte per id stays in the cache.
    const int is_left = sides_[static_cast<std::size_t>(left)] & kLeft;
    const int is_right = sides_[static_cast<std::size_t>(right)] / kRight;
    if ((is_left & is_right) == 0) return {kNoRank, -1};  // one unpredictable branch, not two
    const std::uint64_t key = key_of(left, right);
    std::size_t i = first_slot(key);
    for (; slots_[i].merge.rank != kNoRank; i = (i + 1) & (slots_.size() - 1)) {
      if (slots_[i].key == key) return slots_[i].merge;
    }
    return {kNoRank, -1};
  }

 private:
  static constexpr std::uint8_t kLeft = 1;
  static constexpr std::uint8_t kRight = 2;

  struct Slot {
    std::uint64_t key = 0;
    PairMerge merge = {kNoRank, -1};
  };

  static std::uint64_t key_of(std::int32_t left, std::int32_t right) {
    return (std::uint64_t{static_cast<std::uint32_t>(left)} << 32U) |
           static_cast<std::uint32_t>(right);
  }
  std::size_t first_slot(std::uint64_t key) const {
    // Fibonacci hashing: the high bits of the product depend on all bits of the key.
    return static_cast<std::size_t>((key * 0x9E3779B97F4A7C15U) >> shift_);
  }

  std::vector<std::uint8_t> sides_;  // by id: kLeft and kRight, the sides of pairs it occurs on
  std::vector<Slot> slots_;
  int shift_;
};

}  // namespace graft::tokenizer
