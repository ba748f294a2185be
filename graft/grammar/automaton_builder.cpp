#include "graft/grammar/automaton_builder.h"

#include <algorithm>
#include <queue>

#include "graft/base/check.h"
#include "graft/base/error.h"
#include "graft/grammar/dfa.h"

namespace graft::grammar {
namespace {

// Larger repeated bodies are rules, so that a repetition takes one state each.
constexpr std::int64_t kMaxCopiedSize = 4;
constexpr std::int64_t kMaxCopies = 3;

}  // namespace

AutomatonBuilder::AutomatonBuilder(Automaton& automaton,
                                   const RuleSet& rules,
                                   const std::string& what)
    : automaton_(automaton), rules_(rules), what_(what) {}

void AutomatonBuilder::build() {
  build_rules();
  make_lists();
  const std::vector<bool> is_live = reach_end(true);
  automaton_.matches_nothing_ = !is_live[automaton_.root()];
  remove_dead(is_live);
  make_lists();
  check_left_recursion(reach_end(false));
  mark_tails();
}

StateId AutomatonBuilder::new_state() {
  if (automaton_.flags_.size() == kMaxStates)
    fail(what_, ": too large, it needs more than ", kMaxStates, " states");
  automaton_.flags_.push_back(0);
  return static_cast<StateId>(automaton_.flags_.size() - 1);
}

void AutomatonBuilder::build_rules() {
  for (RuleId rule = 0; rule < rules_.size(); ++rule) {
    automaton_.starts_.push_back(new_state());
    ends_.push_back(new_state());
  }
  for (RuleId rule = 0; rule < rules_.size(); ++rule) {
    GRAFT_CHECK(rules_.body(rule) != nullptr, "rule ", rules_.name(rule), " is not defined");
    build_rule(rule, rules_.body(rule));
  }
  while (!bodies_.empty()) {
    const Body body = bodies_.back();
    bodies_.pop_back();
    build_rule(body.rule, body.expression);
  }
  for (const StateId end : ends_)
    automaton_.flags_[end] |= Automaton::kEnd;
}

void AutomatonBuilder::build_rule(RuleId rule, const Expr& body) {
  add(*body, automaton_.starts_[rule], ends_[rule]);
}

void AutomatonBuilder::add(const Expression& expression, StateId from, StateId to) {
  switch (expression.kind) {
    case Expression::Kind::Literal:
      return add_literal(expression.text, from, to);
    case Expression::Kind::Bytes:
      for (const ByteRange& range : expression.ranges)
        edges_.push_back({from, {.bytes = range, .target = to}});
      return;
    case Expression::Kind::Sequence:
      return add_sequence(expression, from, to);
    case Expression::Kind::Alternatives:
      for (const Expr& part : expression.parts)
        add(*part, from, to);
      return;
    case Expression::Kind::Repeat:
      return add_repeat(expression, from, to);
    case Expression::Kind::Rule:
      calls_.push_back({from, {.rule = expression.rule, .target = to}});
      return;
    case Expression::Kind::Regular:
      return add_regular(*expression.dfa, from, to);
  }
}

void AutomatonBuilder::add_literal(const std::string& text, StateId from, StateId to) {
  if (text.empty()) {
    jumps_.push_back({from, to});
    return;
  }
  for (std::size_t i = 0; i < text.size(); ++i) {
    const StateId next = i + 1 == text.size() ? to : new_state();
    const auto byte = static_cast<std::uint8_t>(text[i]);
    edges_.push_back({from, {.bytes = {byte, byte}, .target = next}});
    from = next;
  }
}

void AutomatonBuilder::add_sequence(const Expression& expression, StateId from, StateId to) {
  if (expression.parts.empty()) jumps_.push_back({from, to});
  for (std::size_t i = 0; i < expression.parts.size(); ++i) {
    const StateId next = i + 1 == expression.parts.size() ? to : new_state();
    add(*expression.parts[i], from, next);
    from = next;
  }
}

// The body of the repetition, as a rule of its own when copies of it would be large.
Expr AutomatonBuilder::shared_body(const Expression& repeat) {
  const Expr& body = repeat.parts.front();
  const std::int64_t copies = std::max(repeat.min, repeat.max);
  if (copies <= kMaxCopies || body->size <= kMaxCopiedSize) return body;
  Expr& shared = shared_[body.get()];
  if (shared == nullptr) {
    const auto id = static_cast<RuleId>(automaton_.starts_.size());
    automaton_.starts_.push_back(new_state());
    ends_.push_back(new_state());
    bodies_.push_back({id, body});
    shared = rule(id);
  }
  return shared;
}

void AutomatonBuilder::add_repeat(const Expression& expression, StateId from, StateId to) {
  const Expr body = shared_body(expression);
  for (std::int64_t i = 0; i < expression.min; ++i) {
    const StateId next = new_state();
    add(*body, from, next);
    from = next;
  }
  if (expression.max == kUnlimited) {
    const StateId loop = new_state();
    jumps_.push_back({from, loop});
    add(*body, loop, loop);
    jumps_.push_back({loop, to});
    return;
  }
  for (std::int64_t i = expression.min; i < expression.max; ++i) {
    const StateId next = new_state();
    jumps_.push_back({from, to});
    add(*body, from, next);
    from = next;
  }
  jumps_.push_back({from, to});
}

void AutomatonBuilder::add_regular(const Dfa& dfa, StateId from, StateId to) {
  std::vector<StateId> states;
  for (std::size_t i = 0; i < dfa.num_states(); ++i)
    states.push_back(new_state());
  if (states.empty()) return;
  jumps_.push_back({from, states[0]});
  for (std::size_t i = 0; i < dfa.num_states(); ++i) {
    for (const Edge& edge : dfa.edges(i))
      edges_.push_back({states[i], {.bytes = edge.bytes, .target = states[edge.target]}});
    if (dfa.is_end(i)) jumps_.push_back({states[i], to});
  }
}

void AutomatonBuilder::make_lists() {
  const std::size_t num_states = automaton_.flags_.size();
  const auto make = [&](auto& items, auto& lists) {
    lists.begins.assign(num_states + 1, 0);
    for (const auto& item : items)
      ++lists.begins[item.from + 1];
    for (std::size_t i = 0; i < num_states; ++i)
      lists.begins[i + 1] += lists.begins[i];
    lists.items.resize(items.size());
    std::vector<std::uint32_t> next = lists.begins;
    for (const auto& item : items)
      lists.items[next[item.from]++] = item.value;
  };
  make(edges_, automaton_.edges_);
  make(jumps_, automaton_.jumps_);
  make(calls_, automaton_.calls_);
}

// The states from which the end of their rule can be reached; without bytes: by matching nothing.
std::vector<bool> AutomatonBuilder::reach_end(bool with_bytes) const {
  const std::size_t num_states = automaton_.flags_.size();
  std::vector<std::vector<StateId>> sources(num_states);
  std::vector<std::vector<std::size_t>> returns(num_states);      // calls by the state after them
  std::unordered_map<StateId, std::vector<std::size_t>> callers;  // calls by the start of the rule
  for (const auto& jump : jumps_)
    sources[jump.value].push_back(jump.from);
  for (std::size_t i = 0; with_bytes && i < edges_.size(); ++i)
    sources[edges_[i].value.target].push_back(edges_[i].from);
  for (std::size_t i = 0; i < calls_.size(); ++i) {
    returns[calls_[i].value.target].push_back(i);
    callers[automaton_.starts_[calls_[i].value.rule]].push_back(i);
  }
  std::vector<bool> found(num_states, false);
  std::queue<StateId> queue;
  const auto add = [&](StateId state) {
    if (found[state]) return;
    found[state] = true;
    queue.push(state);
  };
  for (const StateId end : ends_)
    add(end);
  while (!queue.empty()) {
    const StateId state = queue.front();
    queue.pop();
    for (const StateId source : sources[state])
      add(source);
    for (const std::size_t i : returns[state])
      if (found[automaton_.starts_[calls_[i].value.rule]]) add(calls_[i].from);
    const auto of_rule = callers.find(state);
    if (of_rule == callers.end()) continue;
    for (const std::size_t i : of_rule->second)
      if (found[calls_[i].value.target]) add(calls_[i].from);
  }
  return found;
}

void AutomatonBuilder::remove_dead(const std::vector<bool>& is_live) {
  std::erase_if(edges_, [&](const auto& item) { return !is_live[item.value.target]; });
  std::erase_if(jumps_, [&](const auto& item) { return !is_live[item.value]; });
  std::erase_if(calls_, [&](const auto& item) {
    return !is_live[item.value.target] || !is_live[automaton_.starts_[item.value.rule]];
  });
}

// The rules that a rule can call before its first byte.
std::vector<RuleId> AutomatonBuilder::left_calls(RuleId rule,
                                                 const std::vector<bool>& is_empty) const {
  std::vector<RuleId> rules;
  std::unordered_map<StateId, bool> seen;
  std::vector<StateId> states = {automaton_.starts_[rule]};
  while (!states.empty()) {
    const StateId state = states.back();
    states.pop_back();
    if (!seen.emplace(state, true).second) continue;
    for (const StateId target : automaton_.jumps(state))
      states.push_back(target);
    for (const Call& call : automaton_.calls(state)) {
      rules.push_back(call.rule);
      if (is_empty[automaton_.starts_[call.rule]]) states.push_back(call.target);
    }
  }
  return rules;
}

// `is_empty`: by state, whether the end of the rule can be reached without a byte.
void AutomatonBuilder::check_left_recursion(const std::vector<bool>& is_empty) {
  enum class Mark : std::uint8_t { New, Open, Done };
  struct Frame {
    RuleId rule;
    std::vector<RuleId> calls;
    std::size_t next = 0;
  };
  std::vector<Mark> marks(automaton_.starts_.size(), Mark::New);
  for (RuleId first = 0; first < marks.size(); ++first) {
    if (marks[first] != Mark::New) continue;
    marks[first] = Mark::Open;
    std::vector<Frame> frames = {{first, left_calls(first, is_empty)}};
    while (!frames.empty()) {
      Frame& frame = frames.back();
      if (frame.next == frame.calls.size()) {
        marks[frame.rule] = Mark::Done;
        frames.pop_back();
        continue;
      }
      const RuleId called = frame.calls[frame.next++];
      if (marks[called] == Mark::Open) fail(what_, ": left recursion in rule ", rule_name(called));
      if (marks[called] == Mark::Done) continue;
      marks[called] = Mark::Open;
      frames.push_back({called, left_calls(called, is_empty)});
    }
  }
}

std::string AutomatonBuilder::rule_name(RuleId rule) const {
  return rule < rules_.size() ? rules_.name(rule) : "of a repetition";
}

void AutomatonBuilder::mark_tails() {
  std::vector<std::size_t> num_others(automaton_.flags_.size());  // jumps to states not yet marked
  std::vector<std::vector<StateId>> sources(num_others.size());
  for (const auto& jump : jumps_) {
    ++num_others[jump.from];
    sources[jump.value].push_back(jump.from);
  }
  std::vector<StateId> marked = ends_;
  while (!marked.empty()) {
    const StateId state = marked.back();
    marked.pop_back();
    automaton_.flags_[state] |= Automaton::kTail;
    for (const StateId source : sources[state]) {
      if (--num_others[source] > 0 || automaton_.is_end(source)) continue;
      if (automaton_.edges(source).empty() && automaton_.calls(source).empty())
        marked.push_back(source);
    }
  }
}

}  // namespace graft::grammar
