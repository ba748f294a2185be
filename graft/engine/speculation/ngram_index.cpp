#include "graft/engine/speculation/ngram_index.h"

namespace graft::engine {
namespace {

constexpr std::size_t kMinTable = 64;

std::size_t hash_of(std::int32_t state, TokenId token) {
  constexpr unsigned kTokenBits = 32;
  const std::uint64_t key = static_cast<std::uint64_t>(static_cast<std::uint32_t>(state))
                                << kTokenBits |
                            static_cast<std::uint32_t>(token);
  return static_cast<std::size_t>((key * 0x9E3779B97F4A7C15U) >> kTokenBits);
}

}  // namespace

NgramIndex::NgramIndex() : states_(1), table_(kMinTable, kNone) {}

void NgramIndex::extend(std::span<const TokenId> tokens) {
  for (const TokenId token : tokens)
    append(token);
}

NgramIndex::StateId NgramIndex::add_state(std::int32_t length, std::int32_t end) {
  states_.push_back({.length = length, .end = end});
  return static_cast<StateId>(states_.size()) - 1;
}

// The edge, or the free slot where it belongs.
std::int32_t& NgramIndex::slot_of(StateId from, TokenId token) {
  for (std::size_t at = hash_of(from, token);; ++at) {
    std::int32_t& slot = table_[at & (table_.size() - 1)];
    if (slot == kNone) return slot;
    const Edge& edge = edges_[static_cast<std::size_t>(slot)];
    if (edge.from == from && edge.token == token) return slot;
  }
}

void NgramIndex::grow_table() {
  table_.assign(2 * table_.size(), kNone);
  for (std::size_t i = 0; i < edges_.size(); ++i)
    slot_of(edges_[i].from, edges_[i].token) = static_cast<std::int32_t>(i);
}

NgramIndex::Edge* NgramIndex::find_edge(StateId from, TokenId token) {
  const std::int32_t edge = slot_of(from, token);
  return edge == kNone ? nullptr : &edges_[static_cast<std::size_t>(edge)];
}

void NgramIndex::add_edge(StateId from, TokenId token, StateId to) {
  if (2 * edges_.size() >= table_.size()) grow_table();
  State& state = states_[static_cast<std::size_t>(from)];
  const auto edge = static_cast<std::int32_t>(edges_.size());
  edges_.push_back({.from = from, .token = token, .to = to, .next = state.edges});
  state.edges = edge;
  slot_of(from, token) = edge;
}

// A new state with the substrings of `state` up to this length.
NgramIndex::StateId NgramIndex::split(StateId state, std::int32_t length) {
  const State original = states_[static_cast<std::size_t>(state)];
  const StateId part = add_state(length, original.end);
  states_[static_cast<std::size_t>(part)].suffix = original.suffix;
  states_[static_cast<std::size_t>(state)].suffix = part;
  for (std::int32_t edge = original.edges; edge != kNone;) {
    const Edge copied = edges_[static_cast<std::size_t>(edge)];
    add_edge(part, copied.token, copied.to);
    edge = copied.next;
  }
  return part;
}

void NgramIndex::append(TokenId token) {
  ++size_;
  const auto end = static_cast<std::int32_t>(size_);
  const StateId now = add_state(end, end);
  StateId from = last_;
  last_ = now;
  Edge* edge = nullptr;
  for (; from != kNone; from = states_[static_cast<std::size_t>(from)].suffix) {
    edge = find_edge(from, token);
    if (edge != nullptr) break;
    add_edge(from, token, now);
  }
  StateId suffix = 0;
  if (edge != nullptr) {
    suffix = edge->to;
    const std::int32_t length = states_[static_cast<std::size_t>(from)].length + 1;
    if (states_[static_cast<std::size_t>(suffix)].length != length) {
      const StateId whole = suffix;
      suffix = split(whole, length);
      for (; from != kNone; from = states_[static_cast<std::size_t>(from)].suffix) {
        edge = find_edge(from, token);
        if (edge == nullptr || edge->to != whole) break;
        edge->to = suffix;
      }
    }
  }
  states_[static_cast<std::size_t>(now)].suffix = suffix;
  State& matched = states_[static_cast<std::size_t>(suffix)];
  match_ = {.length = matched.length, .end = matched.end};
  if (suffix != 0) matched.end = end;
}

}  // namespace graft::engine
