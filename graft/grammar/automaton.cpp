#include "graft/grammar/automaton.h"

#include "graft/base/error.h"
#include "graft/grammar/automaton_builder.h"

namespace graft::grammar {

Automaton::Automaton(const RuleSet& rules, RuleId root, const std::string& what) : root_(root) {
  AutomatonBuilder(*this, rules, what).build();
  if (matches_nothing_) fail(what, ": no text matches");
}

Automaton::Automaton(const Expr& expression, const std::string& what) {
  RuleSet rules;
  root_ = rules.add("root");
  rules.define(root_, expression);
  AutomatonBuilder(*this, rules, what).build();
}

}  // namespace graft::grammar
