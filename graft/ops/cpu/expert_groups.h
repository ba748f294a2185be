// The tokens of a pass sorted by expert, for grouped matrix products. A pair is one (token, expert)
// entry of the routing; entries with a negative id have no expert and no pair.

#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace graft::ops::cpu {

struct ExpertGroups {
  struct Group {
    std::int64_t expert = 0;
    std::int64_t begin = 0;  // pairs [begin, end)
    std::int64_t end = 0;

    std::int64_t num_rows() const { return end - begin; }
  };
  std::vector<Group> groups;           // experts with at least one token, ascending
  std::vector<std::int64_t> token_of;  // [pairs], the token index of each sorted pair
  // [tokens, top_k], the sorted index of each routing entry; -1: none
  std::vector<std::int64_t> pair_of;

  // Replaces the previous contents. Aborts when an id is too large.
  void sort(std::span<const std::int32_t> expert_ids, std::int64_t top_k, std::int64_t num_experts);

 private:
  std::vector<std::int64_t> next_;
};

}  // namespace graft::ops::cpu
