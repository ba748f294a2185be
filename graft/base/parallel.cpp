#include "graft/base/parallel.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "graft/base/check.h"
#include "graft/base/pause.h"
#include "graft/base/processors.h"

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

}  // namespace

// A loop is published by a new value of `loops`. Every thread takes part in every loop, if only by
// saying that it is done, so the fields below it change while no other thread looks at them.
struct ThreadPool::State {
  std::vector<std::thread> threads;
  bool may_spin = true;
  std::vector<int> processors;  // empty: threads run where they like
  std::thread::id pinned_caller;
  std::atomic<bool> in_loop = false;
  std::atomic<int> num_awake = 0;

  const void* body = nullptr;
  Call call = nullptr;  // null: the threads end
  std::size_t num_items = 0;
  std::mutex error_mutex;
  std::exception_ptr error;

  // On lines of their own: each is written by one side while the other one polls.
  alignas(64) std::atomic<int> loops = 0;
  alignas(64) std::atomic<std::size_t> next_item = 0;
  alignas(64) std::atomic<int> num_busy = 0;

  void drain(std::size_t worker) {
    if (worker >= num_items) return;
    try {
      for (std::size_t item = next_item++; item < num_items; item = next_item++)
        call(body, worker, item);
    } catch (...) {
      next_item = num_items;
      const std::lock_guard lock(error_mutex);
      if (!error) error = std::current_exception();
    }
  }

  void pin(std::size_t worker) const {
    if (!processors.empty()) pin_this_thread(processors[worker % processors.size()]);
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

ThreadPool::ThreadPool(std::size_t num_threads, std::vector<int> processors)
    : state_(std::make_unique<State>()) {
  const std::size_t available = processors.empty() ? usable_processors().size() : processors.size();
  if (num_threads == 0) num_threads = processors.empty() ? usable_cores().size() : available;
  // With more threads than processors a thread that looks for work keeps another from doing it.
  state_->may_spin = num_threads <= available;
  state_->processors = std::move(processors);
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
  return state_->threads.size() + 1;
}

ThreadPool::Awake::Awake(ThreadPool& pool) : pool_(pool) {
  ++pool_.state_->num_awake;
}

ThreadPool::Awake::~Awake() {
  --pool_.state_->num_awake;
}

void ThreadPool::run(std::size_t num_items, const void* body, Call call) {
  State& s = *state_;
  GRAFT_CHECK(!s.in_loop.exchange(true), "parallel_for inside parallel_for");
  if (!s.processors.empty() && s.pinned_caller != std::this_thread::get_id()) {
    s.pin(0);
    s.pinned_caller = std::this_thread::get_id();
  }
  s.body = body;
  s.call = call;
  s.num_items = num_items;
  s.next_item = 0;
  if (num_items < 2 || s.threads.empty()) {
    s.drain(0);
  } else {
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
