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

// Longer than the serial code between two loops of a pass, short enough that an idle process uses
// no CPU time.
constexpr std::chrono::microseconds kSpinTime{100};

// Returns once `value` differs from `old`: spins for kSpinTime, then sleeps. Inside a SpinScope it
// goes on spinning, but lets other threads run: the one it waits for may need this CPU.
void wait_for_change(const std::atomic<int>& value,
                     int old,
                     bool may_spin,
                     const std::atomic<int>& num_spin_scopes) {
  const auto until = std::chrono::steady_clock::now() + kSpinTime;
  while (may_spin) {
    for (int i = 0; i < 32; ++i) {
      if (value.load(std::memory_order_acquire) != old) return;
      cpu_relax();
    }
    if (std::chrono::steady_clock::now() < until) continue;
    if (num_spin_scopes.load(std::memory_order_relaxed) == 0) break;
    std::this_thread::yield();
  }
  value.wait(old, std::memory_order_acquire);
}

// Reorders the cores so that every prefix is spread over the NUMA nodes in proportion to their
// sizes: few threads then still use the memory bandwidth of all nodes.
std::vector<LogicalCpu> spread_over_nodes(const std::vector<LogicalCpu>& cores) {
  std::map<int, std::size_t> sizes;
  std::vector<std::pair<std::size_t, LogicalCpu>> ranked;  // (rank within its node, core)
  ranked.reserve(cores.size());
  for (const LogicalCpu& core : cores)
    ranked.emplace_back(sizes[core.node]++, core);
  std::ranges::stable_sort(ranked, [&](const auto& a, const auto& b) {
    return a.first * sizes.at(b.second.node) < b.first * sizes.at(a.second.node);
  });
  std::vector<LogicalCpu> spread;
  spread.reserve(ranked.size());
  for (const auto& [rank, core] : ranked)
    spread.push_back(core);
  return spread;
}

// Placement of one worker.
struct Worker {
  std::size_t node = 0;        // index among the nodes that have workers
  std::size_t range = 0;       // index of its range in every loop
  std::vector<int> cpus = {};  // CPU ids it is pinned to; empty: not pinned
};

// One CPU per worker, round-robin over the listed CPUs or the cores.
std::vector<LogicalCpu> choose_cpus(std::size_t num_threads,
                                    const std::vector<int>& cpus,
                                    const std::vector<LogicalCpu>& machine) {
  std::vector<LogicalCpu> candidates;
  for (const int id : cpus) {
    const auto found = std::ranges::find(machine, id, &LogicalCpu::number);
    candidates.push_back(found == machine.end() ? LogicalCpu{.number = id} : *found);
  }
  if (cpus.empty()) candidates = spread_over_nodes(one_per_core(machine));
  if (num_threads == 0) num_threads = candidates.size();
  std::vector<LogicalCpu> chosen(num_threads);
  for (std::size_t worker = 0; worker < num_threads; ++worker)
    chosen[worker] = candidates[worker % candidates.size()];
  return chosen;
}

// Threads are pinned to single CPUs only when the caller lists them: otherwise another process, or
// another model of this one, could share a CPU with a pinned thread while the next CPU is idle.
// With several NUMA nodes threads are bound to their node and the kernel moves them within it.
std::vector<Worker> place_workers(std::size_t num_threads,
                                  const std::vector<int>& cpus,
                                  const std::vector<LogicalCpu>& machine) {
  const std::vector<LogicalCpu> chosen = choose_cpus(num_threads, cpus, machine);
  std::map<int, std::vector<int>> node_cpus;  // only nodes that have workers
  for (const LogicalCpu& cpu : chosen)
    node_cpus[cpu.node];
  for (const LogicalCpu& cpu : machine) {
    if (const auto node = node_cpus.find(cpu.node); node != node_cpus.end())
      node->second.push_back(cpu.number);
  }
  std::vector<Worker> workers;
  workers.reserve(chosen.size());
  for (const LogicalCpu& cpu : chosen) {
    const auto node = node_cpus.find(cpu.node);
    Worker worker = {.node = static_cast<std::size_t>(std::distance(node_cpus.begin(), node))};
    if (!cpus.empty()) {
      worker.cpus = {cpu.number};
    } else if (node_cpus.size() > 1) {
      worker.cpus = node->second;
    }
    workers.push_back(std::move(worker));
  }
  return workers;
}

// The contiguous items of a loop that one worker owns. On its own cache line: the worker writes
// `next` for every item.
struct alignas(64) WorkRange {
  std::size_t end = 0;
  std::atomic<std::size_t> next = 0;
};

// Assigns each worker the index of its range, those of a node side by side; returns the range
// indices of each node.
std::vector<ThreadPool::Range> assign_ranges(std::vector<Worker>& workers) {
  std::vector<ThreadPool::Range> nodes(std::ranges::max(workers, {}, &Worker::node).node + 1);
  std::size_t next = 0;
  for (std::size_t node = 0; node < nodes.size(); ++node) {
    nodes[node].begin = next;
    for (Worker& worker : workers) {
      if (worker.node == node) worker.range = next++;
    }
    nodes[node].end = next;
  }
  return nodes;
}

}  // namespace

// Incrementing `loops` publishes a loop. Every thread joins every loop and decrements `num_busy`
// when it is done, so the caller writes the fields of a loop (body ... error) while no other thread
// reads them.
struct ThreadPool::State {
  std::vector<std::thread> threads;
  std::vector<Worker> workers;  // [num_threads]; worker 0 is the caller
  bool may_spin = true;
  bool pins_callers = false;
  std::thread::id pinned_caller;
  std::atomic<bool> in_loop = false;
  std::atomic<int> num_spin_scopes = 0;

  const void* body = nullptr;
  Call call = nullptr;  // null: the threads exit
  std::size_t num_items = 0;
  bool steal_across_nodes = true;
  std::vector<WorkRange> ranges;         // [num_threads], ordered by node
  std::vector<ThreadPool::Range> nodes;  // [num_nodes], indices into `ranges`
  std::mutex error_mutex;
  std::exception_ptr error;

  // On their own cache lines: one side writes while the other polls.
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
    if (worker >= num_items && steal_across_nodes) return;
    try {
      drain_node(nodes[workers[worker].node], workers[worker].range, worker);
      for (std::size_t i = 1; steal_across_nodes && i < nodes.size(); ++i) {
        const ThreadPool::Range& other = nodes[(workers[worker].node + i) % nodes.size()];
        drain_node(other, other.begin, worker);
      }
    } catch (...) {
      for (WorkRange& range : ranges)
        range.next = range.end;
      const std::lock_guard lock(error_mutex);
      if (!error) error = std::current_exception();
    }
  }

  // Runs all ranges of a node, starting with range `first` and wrapping around.
  void drain_node(const ThreadPool::Range& node, std::size_t first, std::size_t worker) {
    for (std::size_t i = first; i < node.end; ++i)
      drain_range(ranges[i], worker);
    for (std::size_t i = node.begin; i < first; ++i)
      drain_range(ranges[i], worker);
  }

  void drain_range(WorkRange& range, std::size_t worker) const {
    // Most ranges are already empty when a thread comes to steal: a load is cheaper than an
    // atomic increment.
    const std::size_t end = range.end;
    if (range.next.load(std::memory_order_relaxed) >= end) return;
    for (std::size_t item = range.next++; item < end; item = range.next++)
      call(body, worker, item);
  }

  void pin(std::size_t worker) const {
    if (!workers[worker].cpus.empty()) pin_this_thread(workers[worker].cpus);
  }

  void run_thread(std::size_t worker) {
    pin(worker);
    for (int seen = 0;; ++seen) {
      wait_for_change(loops, seen, may_spin, num_spin_scopes);
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
                       const std::vector<int>& cpus,
                       const std::vector<LogicalCpu>& machine)
    : state_(std::make_unique<State>()) {
  state_->workers = place_workers(num_threads, cpus, machine);
  state_->nodes = assign_ranges(state_->workers);
  num_threads = state_->workers.size();
  state_->ranges = std::vector<WorkRange>(num_threads);
  // With more threads than CPUs a spinning thread would take the CPU from a working one.
  state_->may_spin = num_threads <= (cpus.empty() ? machine.size() : cpus.size());
  // Without a CPU list the caller keeps its affinity: threads it starts later would inherit ours.
  state_->pins_callers = !cpus.empty();
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
  return state_->workers.size();
}

std::size_t ThreadPool::num_nodes() const {
  return state_->nodes.size();
}

ThreadPool::Range ThreadPool::node_range(std::size_t node, std::size_t num_items) const {
  const auto [begin, end] = state_->nodes[node];
  return {.begin = num_items * begin / num_threads(), .end = num_items * end / num_threads()};
}

ThreadPool::SpinScope::SpinScope(ThreadPool& pool) : pool_(pool) {
  ++pool_.state_->num_spin_scopes;
}

ThreadPool::SpinScope::~SpinScope() {
  --pool_.state_->num_spin_scopes;
}

void ThreadPool::run(std::size_t num_items, bool steal_across_nodes, const void* body, Call call) {
  State& s = *state_;
  GRAFT_CHECK(!s.in_loop.exchange(true), "parallel_for inside parallel_for");
  if (s.pins_callers && s.pinned_caller != std::this_thread::get_id()) {
    s.pin(0);
    s.pinned_caller = std::this_thread::get_id();
  }
  s.body = body;
  s.call = call;
  s.num_items = num_items;
  s.steal_across_nodes = steal_across_nodes;
  if (num_items < 2 || s.threads.empty()) {
    s.run_alone();
  } else {
    for (std::size_t i = 0; i < s.ranges.size(); ++i) {
      s.ranges[i].next = num_items * i / s.ranges.size();
      s.ranges[i].end = num_items * (i + 1) / s.ranges.size();
    }
    s.num_busy = static_cast<int>(s.threads.size());
    s.publish();
    s.drain(0);
    for (int busy = s.num_busy; busy != 0; busy = s.num_busy)
      wait_for_change(s.num_busy, busy, s.may_spin, s.num_spin_scopes);
  }
  std::exception_ptr error = std::exchange(s.error, nullptr);
  s.in_loop = false;
  if (error) std::rethrow_exception(error);
}

}  // namespace graft
