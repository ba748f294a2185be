#include "graft/grammar/state_sets.h"

#include <algorithm>
#include <utility>

namespace graft::grammar {
namespace {

std::uint64_t pair_key(std::uint32_t high, std::uint32_t low) {
  return (std::uint64_t{high} << 32U) | low;
}

std::uint64_t mixed(std::uint64_t hash, std::uint64_t value) {
  hash = (hash ^ value) * 0x9E3779B97F4A7C15U;
  return hash ^ (hash >> 29U);
}

}  // namespace

StateSets::StateSets(const Automaton& automaton) : automaton_(automaton) {}

SetId StateSets::start() {
  seen_.clear();
  visit({.state = automaton_.root(), .stack = 0});
  return close();
}

SetId StateSets::step(SetId set, std::uint8_t byte) {
  if (sets_[set].next == nullptr) {
    sets_[set].next = std::make_unique<std::array<SetId, 256>>();
    sets_[set].next->fill(kUnknown);
    num_bytes_ += sizeof(*sets_[set].next);
  }
  const SetId known = (*sets_[set].next)[byte];
  if (known != kUnknown) return known;
  seen_.clear();
  for (const Thread& thread : sets_[set].threads) {
    for (const Edge& edge : automaton_.edges(thread.state)) {
      if (edge.bytes.contains(byte)) visit({.state = edge.target, .stack = thread.stack});
    }
  }
  const SetId next = close();
  (*sets_[set].next)[byte] = next;
  return next;
}

void StateSets::visit(Thread thread) {
  if (seen_.insert(pair_key(thread.state, thread.stack)).second) open_.push_back(thread);
}

SetId StateSets::close() {
  std::vector<Thread> threads;
  bool can_end = false;
  while (!open_.empty()) {
    const Thread thread = open_.back();
    open_.pop_back();
    if (!automaton_.edges(thread.state).empty()) threads.push_back(thread);
    for (const StateId target : automaton_.jumps(thread.state))
      visit({.state = target, .stack = thread.stack});
    for (const Call& call : automaton_.calls(thread.state)) {
      const bool returns = !automaton_.is_tail(call.target);
      if (returns && stacks_[thread.stack].depth == kMaxDepth) {
        has_reached_limits_ = true;
        continue;
      }
      visit({.state = automaton_.start(call.rule),
             .stack = returns ? push(call.target, thread.stack) : thread.stack});
    }
    if (!automaton_.is_end(thread.state)) continue;
    if (thread.stack == 0) {
      can_end = true;
    } else {
      visit({.state = stacks_[thread.stack].top, .stack = stacks_[thread.stack].below});
    }
  }
  if (threads.empty() && !can_end) return kDead;
  if (threads.size() > kMaxSetSize) {
    has_reached_limits_ = true;
    return kDead;
  }
  return intern(std::move(threads), can_end);
}

SetId StateSets::intern(std::vector<Thread> threads, bool can_end) {
  std::ranges::sort(threads);
  std::uint64_t hash = can_end ? 1 : 2;
  for (const Thread& thread : threads)
    hash = mixed(hash, pair_key(thread.state, thread.stack));
  const auto [begin, end] = set_ids_.equal_range(hash);
  for (auto found = begin; found != end; ++found) {
    const Set& set = sets_[found->second];
    if (set.can_end == can_end && set.threads == threads) return found->second;
  }
  const auto id = static_cast<SetId>(sets_.size());
  constexpr std::size_t kOverhead = 64;  // of the index
  num_bytes_ += sizeof(Set) + kOverhead + threads.size() * sizeof(Thread);
  sets_.push_back({.threads = std::move(threads), .can_end = can_end, .next = nullptr});
  set_ids_.emplace(hash, id);
  return id;
}

StateSets::StackId StateSets::push(StateId state, StackId below) {
  const auto [found, is_new] =
      stack_ids_.emplace(pair_key(state, below), static_cast<StackId>(stacks_.size()));
  if (is_new) {
    stacks_.push_back({.top = state, .below = below, .depth = stacks_[below].depth + 1});
    num_bytes_ += sizeof(Stack) + sizeof(*found);
  }
  return found->second;
}

std::vector<StateId> StateSets::states_of(StackId stack) const {
  std::vector<StateId> states;
  for (; stack != 0; stack = stacks_[stack].below)
    states.push_back(stacks_[stack].top);
  std::ranges::reverse(states);
  return states;
}

SetId StateSets::import(const StateSets& other, SetId set) {
  std::vector<Thread> threads;
  for (const Thread& thread : other.sets_[set].threads) {
    StackId stack = 0;
    for (const StateId state : other.states_of(thread.stack))
      stack = push(state, stack);
    threads.push_back({.state = thread.state, .stack = stack});
  }
  return intern(std::move(threads), other.sets_[set].can_end);
}

std::vector<std::uint8_t> StateSets::segments(SetId set) const {
  std::array<bool, 257> is_begin = {true};
  for (const Thread& thread : sets_[set].threads) {
    for (const Edge& edge : automaton_.edges(thread.state)) {
      is_begin[edge.bytes.first] = true;
      is_begin[edge.bytes.last + std::size_t{1}] = true;
    }
  }
  std::vector<std::uint8_t> begins;
  for (std::size_t byte = 0; byte < 256; ++byte)
    if (is_begin[byte]) begins.push_back(static_cast<std::uint8_t>(byte));
  return begins;
}

}  // namespace graft::grammar
