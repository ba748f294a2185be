// The tokens of a pass sorted by expert, for operators that run routed experts. A pair is one token
// at one of its experts.

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
  std::vector<Group> groups;           // experts that have tokens, ascending
  std::vector<std::int64_t> token_of;  // [pairs]
  std::vector<std::int64_t> pair_of;   // [tokens, top_k], where the routing list's entry went

  // Replaces what was sorted before. Aborts when an id is no expert's.
  void sort(std::span<const std::int32_t> expert_ids, std::int64_t top_k, std::int64_t num_experts);

 private:
  std::vector<std::int64_t> next_;
};

}  // namespace graft::ops::cpu
