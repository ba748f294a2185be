// A grammar as an automaton over bytes. Every rule has a start and an end state; a state has edges
// on bytes, jumps without a byte, and calls of rules that return to another state. Immutable.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "graft/grammar/expression.h"

namespace graft::grammar {

using StateId = std::uint32_t;

// More are an Error: about 40 bytes each.
inline constexpr std::size_t kMaxStates = 300'000;

struct Edge {
  ByteRange bytes;
  StateId target = 0;
};

struct Call {
  RuleId rule = 0;
  StateId target = 0;  // the state after the rule
};

class Automaton {
 public:
  // `what` is the prefix of the Error: too large, left recursion, no text matches.
  Automaton(const RuleSet& rules, RuleId root, const std::string& what);
  // Of an expression without rules, which may match nothing.
  Automaton(const Expr& expression, const std::string& what);

  std::size_t num_states() const { return flags_.size(); }
  bool matches_nothing() const { return matches_nothing_; }
  StateId root() const { return starts_[root_]; }
  StateId start(RuleId rule) const { return starts_[rule]; }
  std::span<const Edge> edges(StateId state) const { return edges_.of(state); }
  std::span<const StateId> jumps(StateId state) const { return jumps_.of(state); }
  std::span<const Call> calls(StateId state) const { return calls_.of(state); }
  bool is_end(StateId state) const { return (flags_[state] & kEnd) != 0; }
  // Whether only jumps to the end follow: a call that returns here need not return.
  bool is_tail(StateId state) const { return (flags_[state] & kTail) != 0; }

 private:
  friend class AutomatonBuilder;

  // Lists of all states, one after the other.
  template <class T>
  struct Lists {
    std::vector<std::uint32_t> begins;  // [states + 1]
    std::vector<T> items;

    std::span<const T> of(StateId state) const {
      return std::span(items).subspan(begins[state], begins[state + 1] - begins[state]);
    }
  };
  static constexpr std::uint8_t kEnd = 1;
  static constexpr std::uint8_t kTail = 2;

  Lists<Edge> edges_;
  Lists<StateId> jumps_;
  Lists<Call> calls_;
  std::vector<std::uint8_t> flags_;
  std::vector<StateId> starts_;  // by rule
  RuleId root_ = 0;
  bool matches_nothing_ = false;
};

}  // namespace graft::grammar
