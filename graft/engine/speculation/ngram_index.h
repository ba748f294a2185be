// Finds the longest suffix of a sequence that occurred in it before, and what followed. A suffix
// automaton: linear memory, about 100 bytes per token, and amortized constant time.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "graft/sampling_params.h"

namespace graft::engine {

class NgramIndex {
 public:
  NgramIndex();

  // Appends tokens of the sequence.
  void extend(std::span<const TokenId> tokens);
  std::int64_t size() const { return size_; }

  // The longest suffix of the tokens so far that ends at an earlier position too.
  struct Match {
    std::int64_t length = 0;  // 0: the last token is new
    std::int64_t end = 0;     // of a recent earlier occurrence: tokens before and with its last one
  };
  const Match& match() const { return match_; }

 private:
  using StateId = std::int32_t;
  static constexpr std::int32_t kNone = -1;

  // A set of substrings that end at the same positions.
  struct State {
    std::int32_t length = 0;     // of the longest of them
    StateId suffix = kNone;      // of its longest suffix that ends at more positions
    std::int32_t end = 0;        // a position where they end
    std::int32_t edges = kNone;  // the first one of the state
  };
  struct Edge {
    StateId from = kNone;
    TokenId token = 0;
    StateId to = kNone;
    std::int32_t next = kNone;  // of the same state
  };

  void append(TokenId token);
  StateId add_state(std::int32_t length, std::int32_t end);
  Edge* find_edge(StateId from, TokenId token);
  void add_edge(StateId from, TokenId token, StateId to);
  StateId split(StateId state, std::int32_t length);
  std::int32_t& slot_of(StateId from, TokenId token);
  void grow_table();

  std::vector<State> states_;
  std::vector<Edge> edges_;
  std::vector<std::int32_t> table_;  // edges by state and token, a power of two; kNone: free
  StateId last_ = 0;                 // of the whole sequence
  std::int64_t size_ = 0;
  Match match_;
};

}  // namespace graft::engine
