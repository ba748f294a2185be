// Builds an Automaton from expressions. Private to automaton.cpp and automaton_builder.cpp.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "graft/grammar/automaton.h"
#include "graft/grammar/expression.h"

namespace graft::grammar {

class AutomatonBuilder {
 public:
  AutomatonBuilder(Automaton& automaton, const RuleSet& rules, const std::string& what);
  void build();

 private:
  template <class T>
  struct Item {
    StateId from;
    T value;
  };
  // A rule without a name: the body of a repetition.
  struct Body {
    RuleId rule;
    Expr expression;
  };

  StateId new_state();
  void build_rules();
  void build_rule(RuleId rule, const Expr& body);
  void add(const Expression& expression, StateId from, StateId to);
  void add_literal(const std::string& text, StateId from, StateId to);
  void add_sequence(const Expression& expression, StateId from, StateId to);
  void add_repeat(const Expression& expression, StateId from, StateId to);
  void add_regular(const Dfa& dfa, StateId from, StateId to);
  Expr shared_body(const Expression& repeat);
  std::vector<bool> reach_end(bool with_bytes) const;
  void remove_dead(const std::vector<bool>& is_live);
  void check_left_recursion(const std::vector<bool>& is_empty);
  std::vector<RuleId> left_calls(RuleId rule, const std::vector<bool>& is_empty) const;
  void make_lists();
  void mark_tails();
  std::string rule_name(RuleId rule) const;

  Automaton& automaton_;
  const RuleSet& rules_;
  const std::string& what_;
  std::vector<Item<Edge>> edges_;
  std::vector<Item<StateId>> jumps_;
  std::vector<Item<Call>> calls_;
  std::vector<StateId> ends_;  // by rule
  std::vector<Body> bodies_;   // not built yet
  std::unordered_map<const Expression*, Expr> shared_;
};

}  // namespace graft::grammar
