#include "graft/base/parallel.h"

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include <sched.h>

#include "graft/base/check.h"

namespace graft {
namespace {

std::size_t usable_processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof(set), &set) != 0) return 1;
  return static_cast<std::size_t>(std::max(1, CPU_COUNT(&set)));
}

}  // namespace

// One loop at a time: `body` is set while it runs. Items are handed out under the mutex, which is
// cheap beside items of tens of microseconds and more (encoding rows, converting tensors).
struct ThreadPool::State {
  std::mutex mutex;
  std::condition_variable work_ready;
  std::condition_variable work_done;
  const std::function<void(std::size_t)>* body = nullptr;
  std::size_t next_item = 0;
  std::size_t num_items = 0;
  std::size_t num_busy = 0;
  std::exception_ptr error;
  bool stopping = false;
  std::vector<std::thread> threads;

  // Takes items until none is left. Called and returns with the lock held.
  void drain(std::unique_lock<std::mutex>& lock) {
    while (next_item < num_items) {
      const std::size_t item = next_item++;
      ++num_busy;
      const auto* run = body;
      lock.unlock();
      std::exception_ptr thrown;
      try {
        (*run)(item);
      } catch (...) {
        thrown = std::current_exception();
      }
      lock.lock();
      --num_busy;
      if (thrown) {
        if (!error) error = thrown;
        next_item = num_items;
      }
    }
  }

  void run_thread() {
    std::unique_lock lock(mutex);
    while (true) {
      work_ready.wait(lock, [&] { return stopping || next_item < num_items; });
      if (stopping) return;
      drain(lock);
      if (num_busy == 0) work_done.notify_all();
    }
  }
};

ThreadPool::ThreadPool(std::size_t num_threads) : state_(std::make_unique<State>()) {
  if (num_threads == 0) num_threads = usable_processors();
  state_->threads.reserve(num_threads - 1);
  for (std::size_t i = 1; i < num_threads; ++i)
    state_->threads.emplace_back([state = state_.get()] { state->run_thread(); });
}

ThreadPool::~ThreadPool() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->stopping = true;
  }
  state_->work_ready.notify_all();
  for (std::thread& thread : state_->threads)
    thread.join();
}

std::size_t ThreadPool::num_threads() const {
  return state_->threads.size() + 1;
}

void ThreadPool::parallel_for(std::size_t num_items, const std::function<void(std::size_t)>& body) {
  std::unique_lock lock(state_->mutex);
  GRAFT_CHECK(state_->body == nullptr, "parallel_for inside parallel_for");
  state_->body = &body;
  state_->next_item = 0;
  state_->num_items = num_items;
  state_->work_ready.notify_all();
  state_->drain(lock);
  state_->work_done.wait(lock, [&] { return state_->num_busy == 0; });
  state_->body = nullptr;
  state_->num_items = 0;
  if (std::exception_ptr error = std::exchange(state_->error, nullptr)) {
    lock.unlock();
    std::rethrow_exception(error);
  }
}

}  // namespace graft
