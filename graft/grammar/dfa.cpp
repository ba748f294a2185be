#include "graft/grammar/dfa.h"

#include <algorithm>
#include <array>
#include <functional>
#include <unordered_map>
#include <utility>

#include "graft/base/error.h"
#include "graft/grammar/state_sets.h"

namespace graft::grammar {
namespace {

thread_local std::size_t num_built_states = 0;

// Before one more state.
void check_size(std::size_t num_states) {
  if (num_states >= kMaxDfaStates)
    fail("too large: a deterministic automaton needs more than ", kMaxDfaStates, " states");
  if (++num_built_states > kMaxBuiltStates)
    fail("too large: deterministic automata need more than ", kMaxBuiltStates, " states together");
}

// Appends an edge, merged with the last one where possible.
void append_edge(std::vector<Edge>& edges, int first, int last, StateId target) {
  const ByteRange range = {static_cast<std::uint8_t>(first), static_cast<std::uint8_t>(last)};
  if (!edges.empty() && edges.back().target == target && edges.back().bytes.last + 1 == first) {
    edges.back().bytes.last = range.last;
  } else {
    edges.push_back({.bytes = range, .target = target});
  }
}

}  // namespace

void start_dfa_budget() {
  num_built_states = 0;
}

// The sorted texts as a trie.
Dfa Dfa::of_texts(std::vector<std::string> texts) {
  std::ranges::sort(texts);
  Dfa out;
  if (!texts.empty()) out.states_.emplace_back();
  for (const std::string& text : texts) {
    std::size_t state = 0;
    for (const char c : text) {
      const auto byte = static_cast<std::uint8_t>(c);
      std::vector<Edge>& edges = out.states_[state].edges;
      if (edges.empty() || edges.back().bytes.first != byte) {
        check_size(out.states_.size());
        edges.push_back(
            {.bytes = {byte, byte}, .target = static_cast<StateId>(out.states_.size())});
        state = out.states_.size();
        out.states_.emplace_back();
      } else {
        state = edges.back().target;
      }
    }
    out.states_[state].is_end = true;
  }
  return out;
}

Dfa::Dfa(const Expr& expression) {
  const Automaton automaton(expression, "expression");
  if (automaton.matches_nothing()) return;
  StateSets sets(automaton);
  std::unordered_map<SetId, StateId> ids;
  std::vector<SetId> order;
  const auto id_of = [&](SetId set) {
    const auto [found, is_new] = ids.emplace(set, static_cast<StateId>(order.size()));
    if (is_new) order.push_back(set);
    return found->second;
  };
  const SetId start = sets.start();
  if (start != StateSets::kDead) id_of(start);
  for (std::size_t i = 0; i < order.size(); ++i) {
    check_size(i);
    const SetId set = order[i];
    State state = {.edges = {}, .is_end = sets.can_end(set)};
    const std::vector<std::uint8_t> begins = sets.segments(set);
    for (std::size_t k = 0; k < begins.size(); ++k) {
      const SetId next = sets.step(set, begins[k]);
      if (next == StateSets::kDead) continue;
      const int last = k + 1 == begins.size() ? 255 : begins[k + 1] - 1;
      append_edge(state.edges, begins[k], last, id_of(next));
    }
    states_.push_back(std::move(state));
  }
  if (sets.has_reached_limits())
    fail("too large: more than ", StateSets::kMaxSetSize, " ways to match a text");
}

bool Dfa::matches(std::string_view text) const {
  if (states_.empty()) return false;
  std::size_t state = 0;
  for (const char c : text) {
    const Edge* edge = find_edge(state, static_cast<std::uint8_t>(c));
    if (edge == nullptr) return false;
    state = edge->target;
  }
  return states_[state].is_end;
}

// Null: none.
const Edge* Dfa::find_edge(std::size_t state, std::uint8_t byte) const {
  const std::vector<Edge>& edges = states_[state].edges;
  const auto found =
      std::ranges::find_if(edges, [&](const Edge& edge) { return edge.bytes.contains(byte); });
  return found == edges.end() ? nullptr : &*found;
}

Dfa Dfa::with_texts(std::span<const ByteText> texts) const {
  Dfa out;
  out.states_.resize(states_.size());
  std::array<bool, 256> is_replaced = {};
  for (const ByteText& each : texts)
    is_replaced[each.byte] = true;
  for (std::size_t i = 0; i < states_.size(); ++i) {
    out.states_[i].is_end = states_[i].is_end;
    for (std::size_t byte = 0; byte < is_replaced.size(); ++byte) {
      const Edge* edge = find_edge(i, static_cast<std::uint8_t>(byte));
      if (edge == nullptr || is_replaced[byte]) continue;
      append_edge(out.states_[i].edges, static_cast<int>(byte), static_cast<int>(byte),
                  edge->target);
    }
    std::unordered_map<std::string, StateId> prefixes;
    for (const ByteText& each : texts) {
      const Edge* edge = find_edge(i, each.byte);
      if (edge != nullptr) out.add_path(static_cast<StateId>(i), edge->target, each.text, prefixes);
    }
  }
  return out;
}

// `prefixes`: of the paths from this state so far, with the states that they lead to.
void Dfa::add_path(StateId from,
                   StateId to,
                   const std::string& text,
                   std::unordered_map<std::string, StateId>& prefixes) {
  for (std::size_t size = 1; size <= text.size(); ++size) {
    const auto byte = static_cast<std::uint8_t>(text[size - 1]);
    const bool is_last = size == text.size();
    const StateId next = is_last ? to : static_cast<StateId>(states_.size());
    const auto [found, is_new] = prefixes.emplace(text.substr(0, size), next);
    if (is_new && !is_last) states_.emplace_back();
    if (is_new) states_[from].edges.push_back({.bytes = {byte, byte}, .target = next});
    from = found->second;
  }
}

Dfa Dfa::without_marks(std::uint8_t first, std::uint8_t last) const {
  if (states_.empty()) return {};
  Dfa unmarked = *this;
  for (std::size_t i = 0; i < states_.size(); ++i) {
    const Edge* end = find_edge(i, last);
    if (end != nullptr && states_[end->target].is_end) unmarked.states_[i].is_end = true;
    std::erase_if(unmarked.states_[i].edges,
                  [&](const Edge& edge) { return edge.bytes.first >= std::min(first, last); });
  }
  Dfa marked = unmarked;
  const Edge* begin = find_edge(0, first);
  unmarked.remove_dead();
  if (begin == nullptr) return unmarked;
  // The state after the first mark becomes the start.
  const StateId start = begin->target;
  std::swap(marked.states_[0], marked.states_[start]);
  for (State& state : marked.states_) {
    for (Edge& edge : state.edges) {
      if (edge.target == start) {
        edge.target = 0;
      } else if (edge.target == 0) {
        edge.target = start;
      }
    }
  }
  marked.remove_dead();
  return union_of(unmarked, marked);
}

// Removes states from which no end can be reached.
void Dfa::remove_dead() {
  std::vector<std::vector<StateId>> sources(states_.size());
  std::vector<bool> is_live(states_.size(), false);
  std::vector<StateId> queue;
  for (StateId state = 0; state < states_.size(); ++state) {
    for (const Edge& edge : states_[state].edges)
      sources[edge.target].push_back(state);
    if (!states_[state].is_end) continue;
    is_live[state] = true;
    queue.push_back(state);
  }
  while (!queue.empty()) {
    const StateId state = queue.back();
    queue.pop_back();
    for (const StateId source : sources[state]) {
      if (is_live[source]) continue;
      is_live[source] = true;
      queue.push_back(source);
    }
  }
  if (states_.empty() || !is_live[0]) {
    states_.clear();
    return;
  }
  std::vector<StateId> ids(states_.size());
  std::vector<State> kept;
  for (std::size_t i = 0; i < states_.size(); ++i) {
    ids[i] = static_cast<StateId>(kept.size());
    if (is_live[i]) kept.push_back(std::move(states_[i]));
  }
  for (State& state : kept) {
    std::erase_if(state.edges, [&](const Edge& edge) { return !is_live[edge.target]; });
    for (Edge& edge : state.edges)
      edge.target = ids[edge.target];
  }
  states_ = std::move(kept);
}

// Pairs of states of two automata, of which one may be dead.
class Dfa::Product {
 public:
  using IsEnd = bool (*)(bool, bool);

  Product(const Dfa& a, const Dfa& b, IsEnd combine) : a_(a), b_(b), is_end_(combine) {}

  Dfa run() {
    id_of(a_.states_.empty() ? kNone : 0, b_.states_.empty() ? kNone : 0);
    Dfa out;
    for (std::size_t i = 0; i < pairs_.size(); ++i) {
      check_size(i);
      const auto [a, b] = pairs_[i];
      State state = {.edges = {}, .is_end = is_end_(is_end(a_, a), is_end(b_, b))};
      add_edges(a, b, state);
      out.states_.push_back(std::move(state));
    }
    out.remove_dead();
    return out;
  }

 private:
  static constexpr StateId kNone = ~StateId{0};

  static bool is_end(const Dfa& dfa, StateId state) {
    return state != kNone && dfa.states_[state].is_end;
  }
  // Whether texts that only `a` or only `b` can still match are of interest.
  bool is_useful(StateId a, StateId b) const {
    return (a != kNone && b != kNone) || (a != kNone && is_end_(true, false)) ||
           (b != kNone && is_end_(false, true));
  }
  StateId id_of(StateId a, StateId b) {
    const auto [found, is_new] =
        ids_.emplace((std::uint64_t{a} << 32U) | b, static_cast<StateId>(pairs_.size()));
    if (is_new) pairs_.emplace_back(a, b);
    return found->second;
  }
  static void fill(const Dfa& dfa, StateId state, std::array<StateId, 256>& next) {
    next.fill(kNone);
    if (state == kNone) return;
    for (const Edge& edge : dfa.states_[state].edges) {
      for (int byte = edge.bytes.first; byte <= edge.bytes.last; ++byte)
        next[static_cast<std::size_t>(byte)] = edge.target;
    }
  }
  void add_edges(StateId a, StateId b, State& state) {
    std::array<StateId, 256> of_a = {};
    std::array<StateId, 256> of_b = {};
    fill(a_, a, of_a);
    fill(b_, b, of_b);
    for (std::size_t byte = 0; byte < 256; ++byte) {
      if (!is_useful(of_a[byte], of_b[byte])) continue;
      append_edge(state.edges, static_cast<int>(byte), static_cast<int>(byte),
                  id_of(of_a[byte], of_b[byte]));
    }
  }

  const Dfa& a_;
  const Dfa& b_;
  IsEnd is_end_;
  std::vector<std::pair<StateId, StateId>> pairs_;
  std::unordered_map<std::uint64_t, StateId> ids_;
};

Dfa intersection(const Dfa& a, const Dfa& b) {
  return Dfa::Product(a, b, [](bool in_a, bool in_b) { return in_a && in_b; }).run();
}

Dfa difference(const Dfa& a, const Dfa& b) {
  return Dfa::Product(a, b, [](bool in_a, bool in_b) { return in_a && !in_b; }).run();
}

Dfa union_of(const Dfa& a, const Dfa& b) {
  return Dfa::Product(a, b, [](bool in_a, bool in_b) { return in_a || in_b; }).run();
}

}  // namespace graft::grammar
