// Runs an automaton on bytes: the sets of its states, each with a stack of return states, that
// texts lead to. Sets and their transitions are computed once and kept, so that a byte usually
// costs one table lookup. Not thread-safe.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "graft/grammar/automaton.h"

namespace graft::grammar {

using SetId = std::uint32_t;

class StateSets {
 public:
  static constexpr SetId kDead = ~SetId{0};
  // A text that needs more states at once or a deeper stack is rejected.
  static constexpr std::size_t kMaxSetSize = 4096;
  static constexpr std::uint32_t kMaxDepth = 512;

  // The automaton must outlive this.
  explicit StateSets(const Automaton& automaton);

  SetId start();
  // kDead: no text continues with this byte.
  SetId step(SetId set, std::uint8_t byte);
  bool can_end(SetId set) const { return sets_[set].can_end; }
  // Whether a longer text can match.
  bool can_continue(SetId set) const { return !sets_[set].threads.empty(); }
  // The set of another object for the same automaton.
  SetId import(const StateSets& other, SetId set);
  // The first bytes of the byte ranges in which all transitions of the set are equal, from 0.
  std::vector<std::uint8_t> segments(SetId set) const;

  std::size_t num_bytes() const { return num_bytes_; }  // of memory, roughly
  // Whether a text was rejected for the limits above.
  bool has_reached_limits() const { return has_reached_limits_; }

 private:
  using StackId = std::uint32_t;
  struct Stack {
    StateId top = 0;
    StackId below = 0;
    std::uint32_t depth = 0;
  };
  // A state with the states to return to at the ends of rules.
  struct Thread {
    StateId state = 0;
    StackId stack = 0;

    bool operator==(const Thread&) const = default;
    auto operator<=>(const Thread&) const = default;
  };
  struct Set {
    std::vector<Thread> threads;  // sorted; those with edges on bytes
    bool can_end = false;
    std::unique_ptr<std::array<SetId, 256>> next;  // kUnknown: not computed
  };
  static constexpr SetId kUnknown = kDead - 1;

  void visit(Thread thread);
  SetId close();  // follows jumps, calls and ends from open_
  SetId intern(std::vector<Thread> threads, bool can_end);
  StackId push(StateId state, StackId below);
  std::vector<StateId> states_of(StackId stack) const;

  const Automaton& automaton_;
  std::vector<Set> sets_;
  std::unordered_multimap<std::uint64_t, SetId> set_ids_;  // by hash
  std::vector<Stack> stacks_ = {{}};                       // 0: empty
  std::unordered_map<std::uint64_t, StackId> stack_ids_;   // by top and below
  std::size_t num_bytes_ = 0;
  bool has_reached_limits_ = false;
  // Scratch of close().
  std::vector<Thread> open_;
  std::unordered_set<std::uint64_t> seen_;
};

}  // namespace graft::grammar
