// Deterministic automata of regular languages, with the operations on sets: what the values of a
// schema's keywords have in common.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "graft/grammar/automaton.h"
#include "graft/grammar/expression.h"

namespace graft::grammar {

// More are an Error: of one automaton, and of all that a thread has built since start_dfa_budget().
inline constexpr std::size_t kMaxDfaStates = 30'000;
inline constexpr std::size_t kMaxBuiltStates = 400'000;
void start_dfa_budget();

class Dfa {
 public:
  Dfa() = default;  // matches nothing
  // Of an expression without rules. Throws Error when it is too large.
  explicit Dfa(const Expr& expression);
  static Dfa of_texts(std::vector<std::string> texts);

  struct State {
    std::vector<Edge> edges = {};  // disjoint, ascending
    bool is_end = false;
  };
  explicit Dfa(std::vector<State> states) : states_(std::move(states)) { remove_dead(); }

  // State 0 is the start; no states: matches nothing. From every state an end can be reached.
  std::size_t num_states() const { return states_.size(); }
  std::span<const Edge> edges(std::size_t state) const { return states_[state].edges; }
  bool is_end(std::size_t state) const { return states_[state].is_end; }

  bool matches_nothing() const { return states_.empty(); }
  bool matches(std::string_view text) const;

  // Replaces single bytes by texts, none of which begins with another or with a byte that stays.
  struct ByteText {
    std::uint8_t byte = 0;
    std::string text = {};
  };
  Dfa with_texts(std::span<const ByteText> texts) const;
  // The texts that match with `first`, `last`, both or neither of these bytes added at their ends.
  Dfa without_marks(std::uint8_t first, std::uint8_t last) const;

  friend Dfa intersection(const Dfa& a, const Dfa& b);
  friend Dfa difference(const Dfa& a, const Dfa& b);
  friend Dfa union_of(const Dfa& a, const Dfa& b);

 private:
  class Product;

  void remove_dead();
  void add_path(StateId from,
                StateId to,
                const std::string& text,
                std::unordered_map<std::string, StateId>& prefixes);
  const Edge* find_edge(std::size_t state, std::uint8_t byte) const;

  std::vector<State> states_;
};

Dfa intersection(const Dfa& a, const Dfa& b);
Dfa difference(const Dfa& a, const Dfa& b);
Dfa union_of(const Dfa& a, const Dfa& b);

}  // namespace graft::grammar
