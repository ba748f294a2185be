#include "graft/base/parallel.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "graft/base/check.h"
#include "graft/base/pause.h"

namespace graft {
namespace {

// Longer than what one thread does alone between two loops of a pass, short enough that an idle
// program costs nothing.
constexpr std::chrono::microseconds kSpinTime{100};

// Returns once `value` is no longer `old`: looks for a while, then sleeps.
void wait_for_change(const std::atomic<int>& value,
                     int old,
                     bool may_spin,
                     const std::atomic<int>& num_awake) {
  if (may_spin) {
    const auto until = std::chrono::steady_clock::now() + kSpinTime;
    do {
      for (int i = 0; i < 32; ++i) {
        if (value.load(std::memory_order_acquire) != old) return;
        pause_briefly();
      }
    } while (num_awake.load(std::memory_order_relaxed) > 0 ||
             std::chrono::steady_clock::now() < until);
  }
  value.wait(old, std::memory_order_acquire);
}

// The same in another order: the first n are spread over the nodes as evenly as these are. Memory
// that is read from all nodes is read fastest, however few threads there are.
std::vector<Processor> spread_over_nodes(const std::vector<Processor>& cores) {
  std::map<int, std::size_t> sizes;
  std::vector<std::pair<std::size_t, Processor>> ranked;  // within its node
  ranked.reserve(cores.size());
  for (const Processor& core : cores)
    ranked.emplace_back(sizes[core.node]++, core);
  std::ranges::stable_sort(ranked, [&](const auto& a, const auto& b) {
    return a.first * sizes.at(b.second.node) < b.first * sizes.at(a.second.node);
  });
  std::vector<Processor> spread;
  spread.reserve(ranked.size());
  for (const auto& [rank, core] : ranked)
    spread.push_back(core);
  return spread;
}

// Where a worker belongs.
struct Seat {
  std::size_t node = 0;              // counted among those that have workers
  std::size_t share = 0;             // its part of every loop
  std::vector<int> processors = {};  // to be pinned to; empty: it runs where it likes
};

// One processor for each worker, in turn.
std::vector<Processor> choose_processors(std::size_t num_threads,
                                         const std::vector<int>& processors,
                                         const std::vector<Processor>& machine) {
  std::vector<Processor> turns;
  for (const int number : processors) {
    const auto found = std::ranges::find(machine, number, &Processor::number);
    turns.push_back(found == machine.end() ? Processor{.number = number} : *found);
  }
  if (processors.empty()) turns = spread_over_nodes(one_per_core(machine));
  if (num_threads == 0) num_threads = turns.size();
  std::vector<Processor> chosen(num_threads);
  for (std::size_t worker = 0; worker < num_threads; ++worker)
    chosen[worker] = turns[worker % turns.size()];
  return chosen;
}

// Threads are pinned to single processors only when somebody says to which: other programs, and
// other models of this one, would otherwise share a processor with them while the next one is idle.
// Where memory is near or far they stay on their node; the system moves them within it.
std::vector<Seat> seat_workers(std::size_t num_threads,
                               const std::vector<int>& processors,
                               const std::vector<Processor>& machine) {
  const std::vector<Processor> chosen = choose_processors(num_threads, processors, machine);
  std::map<int, std::vector<int>> processors_of;  // by node, of those that have workers
  for (const Processor& processor : chosen)
    processors_of[processor.node];
  for (const Processor& processor : machine) {
    if (const auto node = processors_of.find(processor.node); node != processors_of.end())
      node->second.push_back(processor.number);
  }
  std::vector<Seat> seats;
  seats.reserve(chosen.size());
  for (const Processor& processor : chosen) {
    const auto node = processors_of.find(processor.node);
    Seat seat = {.node = static_cast<std::size_t>(std::distance(processors_of.begin(), node))};
    if (!processors.empty()) {
      seat.processors = {processor.number};
    } else if (processors_of.size() > 1) {
      seat.processors = node->second;
    }
    seats.push_back(std::move(seat));
  }
  return seats;
}

// A worker's part of a loop: items that follow each other, so that what they read does too. On a
// line of its own: its worker writes to it all the time.
struct alignas(64) Share {
  std::size_t end = 0;
  std::atomic<std::size_t> next = 0;
};

// Gives every seat its share, those of a node side by side; returns the shares of each node.
std::vector<ThreadPool::Range> plan_splits(std::vector<Seat>& seats) {
  std::vector<ThreadPool::Range> nodes(std::ranges::max(seats, {}, &Seat::node).node + 1);
  std::size_t next = 0;
  for (std::size_t node = 0; node < nodes.size(); ++node) {
    nodes[node].begin = next;
    for (Seat& seat : seats) {
      if (seat.node == node) seat.share = next++;
    }
    nodes[node].end = next;
  }
  return nodes;
}

}  // namespace

// A loop is published by a new value of `loops`. Every thread takes part in every loop, if only by
// saying that it is done, so the fields below it change while no other thread looks at them.
struct ThreadPool::State {
  std::vector<std::thread> threads;
  std::vector<Seat> seats;  // [workers]
  bool may_spin = true;
  bool pins_callers = false;
  std::thread::id pinned_caller;
  std::atomic<bool> in_loop = false;
  std::atomic<int> num_awake = 0;

  const void* body = nullptr;
  Call call = nullptr;  // null: the threads end
  std::size_t num_items = 0;
  bool may_help = true;
  std::vector<Share> shares;             // [workers], in the order of their nodes
  std::vector<ThreadPool::Range> nodes;  // whose shares are whose
  std::mutex error_mutex;
  std::exception_ptr error;

  // On lines of their own: each is written by one side while the other one polls.
  alignas(64) std::atomic<int> loops = 0;
  alignas(64) std::atomic<int> num_busy = 0;

  void run_alone() {
    try {
      for (std::size_t item = 0; item < num_items; ++item)
        call(body, 0, item);
    } catch (...) {
      error = std::current_exception();
    }
  }

  void drain(std::size_t worker) {
    if (worker >= num_items && may_help) return;
    try {
      drain_node(nodes[seats[worker].node], seats[worker].share, worker);
      for (std::size_t i = 1; may_help && i < nodes.size(); ++i) {
        const ThreadPool::Range& other = nodes[(seats[worker].node + i) % nodes.size()];
        drain_node(other, other.begin, worker);
      }
    } catch (...) {
      for (Share& share : shares)
        share.next = share.end;
      const std::lock_guard lock(error_mutex);
      if (!error) error = std::current_exception();
    }
  }

  // All shares of a node in turn, from one of them on.
  void drain_node(const ThreadPool::Range& node, std::size_t first, std::size_t worker) {
    for (std::size_t i = first; i < node.end; ++i)
      drain_share(shares[i], worker);
    for (std::size_t i = node.begin; i < first; ++i)
      drain_share(shares[i], worker);
  }

  void drain_share(Share& share, std::size_t worker) const {
    // Most shares of others are done when somebody comes to help: looking is cheaper than taking.
    const std::size_t end = share.end;
    if (share.next.load(std::memory_order_relaxed) >= end) return;
    for (std::size_t item = share.next++; item < end; item = share.next++)
      call(body, worker, item);
  }

  void pin(std::size_t worker) const {
    if (!seats[worker].processors.empty()) pin_this_thread(seats[worker].processors);
  }

  void run_thread(std::size_t worker) {
    pin(worker);
    for (int seen = 0;; ++seen) {
      wait_for_change(loops, seen, may_spin, num_awake);
      if (call == nullptr) return;
      drain(worker);
      if (--num_busy == 0) num_busy.notify_one();
    }
  }

  void publish() {
    ++loops;
    loops.notify_all();
  }
};

ThreadPool::ThreadPool(std::size_t num_threads,
                       const std::vector<int>& processors,
                       const std::vector<Processor>& machine)
    : state_(std::make_unique<State>()) {
  state_->seats = seat_workers(num_threads, processors, machine);
  state_->nodes = plan_splits(state_->seats);
  num_threads = state_->seats.size();
  state_->shares = std::vector<Share>(num_threads);
  // With more threads than processors a thread that looks for work keeps another from doing it.
  state_->may_spin = num_threads <= (processors.empty() ? machine.size() : processors.size());
  // Otherwise the thread that calls is its owner's, who may have other plans for it, and for the
  // threads it starts, which would be where it is.
  state_->pins_callers = !processors.empty();
  state_->threads.reserve(num_threads - 1);
  for (std::size_t i = 1; i < num_threads; ++i)
    state_->threads.emplace_back([state = state_.get(), i] { state->run_thread(i); });
}

ThreadPool::~ThreadPool() {
  state_->call = nullptr;
  state_->publish();
  for (std::thread& thread : state_->threads)
    thread.join();
}

std::size_t ThreadPool::num_threads() const {
  return state_->seats.size();
}

std::size_t ThreadPool::num_nodes() const {
  return state_->nodes.size();
}

ThreadPool::Range ThreadPool::share(std::size_t node, std::size_t num_items) const {
  const auto [begin, end] = state_->nodes[node];
  return {.begin = num_items * begin / num_threads(), .end = num_items * end / num_threads()};
}

ThreadPool::SpinScope::SpinScope(ThreadPool& pool) : pool_(pool) {
  ++pool_.state_->num_awake;
}

ThreadPool::SpinScope::~SpinScope() {
  --pool_.state_->num_awake;
}

void ThreadPool::run(std::size_t num_items, bool may_help, const void* body, Call call) {
  State& s = *state_;
  GRAFT_CHECK(!s.in_loop.exchange(true), "parallel_for inside parallel_for");
  if (s.pins_callers && s.pinned_caller != std::this_thread::get_id()) {
    s.pin(0);
    s.pinned_caller = std::this_thread::get_id();
  }
  s.body = body;
  s.call = call;
  s.num_items = num_items;
  s.may_help = may_help;
  if (num_items < 2 || s.threads.empty()) {
    s.run_alone();
  } else {
    for (std::size_t i = 0; i < s.shares.size(); ++i) {
      s.shares[i].next = num_items * i / s.shares.size();
      s.shares[i].end = num_items * (i + 1) / s.shares.size();
    }
    s.num_busy = static_cast<int>(s.threads.size());
    s.publish();
    s.drain(0);
    for (int busy = s.num_busy; busy != 0; busy = s.num_busy)
      wait_for_change(s.num_busy, busy, s.may_spin, s.num_awake);
  }
  std::exception_ptr error = std::exchange(s.error, nullptr);
  s.in_loop = false;
  if (error) std::rethrow_exception(error);
}

}  // namespace graft
