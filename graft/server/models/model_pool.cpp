#include "graft/server/models/model_pool.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <iterator>
#include <list>
#include <mutex>
#include <thread>
#include <utility>

#include "graft/base/out_of_memory.h"
#include "graft/base/system/system.h"
#include "graft/formats/created_model.h"
#include "graft/server/api_error.h"

namespace graft::server {
namespace {

using Clock = std::chrono::steady_clock;

// Memory per byte of weights: 20 % more for the workspace and a small KV cache.
constexpr double kMemoryFactor = 1.2;

Clock::duration seconds_duration(double seconds) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

}  // namespace

// Leases own the state, not the models. Models are destroyed by the pool's destructor or on the
// loader thread, never on a model's own thread, which could not join itself.
struct ModelPool::State : std::enable_shared_from_this<ModelPool::State> {
  struct Waiter {
    Ready ready;
    Failed failed;
  };

  struct Entry {
    NamedPath named;
    std::vector<api::AdapterSource> adapters = {};
    std::shared_ptr<LoadedModel> model = {};
    std::int64_t num_leases = 0;
    Clock::time_point last_used = {};
    double keep_alive_seconds = 0;
    std::deque<Waiter> waiters = {};       // requests waiting for it to load
    Clock::time_point waiting_since = {};  // the first of them
    Clock::time_point loaded_at = {};
    bool is_loading = false;
    bool is_draining = false;  // new requests wait until another model is loaded
    bool is_removed = false;   // no request finds it; unloaded as soon as it is idle

    bool is_idle() const { return model && num_leases == 0; }
    bool has_failed() const { return model && !model->llm().failure().empty(); }
  };

  State(PoolConfig given, Post given_post) : config(std::move(given)), post(std::move(given_post)) {
    for (const NamedPath& named : config.models)
      entries.push_back({.named = named, .keep_alive_seconds = config.keep_alive_seconds});
    if (!entries.empty()) entries.front().adapters = config.llm.adapters;
  }

  Entry& at(const std::string& name) {
    const auto found = std::ranges::find_if(
        entries, [&](const Entry& entry) { return !entry.is_removed && entry.named.name == name; });
    if (found != entries.end()) return *found;
    throw ApiError(404, str("model '", name, "' not found"), "model", "model_not_found");
  }

  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const Entry& entry : entries) {
      if (!entry.is_removed) names.push_back(entry.named.name);
    }
    return names;
  }

  // "org/repo" is its only type: "org/repo:Q4_K_M". Null: none, or several.
  Entry* only_type(const std::string& repo) {
    if (repo.find('/') == std::string::npos || repo.find(':') != std::string::npos) return nullptr;
    Entry* found = nullptr;
    for (Entry& entry : entries) {
      const bool is_type = http::lower_case(entry.named.name).starts_with(repo + ":");
      if (entry.is_removed || !is_type) continue;
      if (found != nullptr) return nullptr;
      found = &entry;
    }
    return found;
  }

  // Ignores case, the name of a hub, and ":latest" on either side. Null: not found.
  Entry* find_entry(const std::string& name) {
    constexpr std::string_view kLatest = ":latest";
    const auto bare = [&](std::string text) {
      text = http::lower_case(text);
      for (const std::string_view prefix : {"hf.co/", "hf:", "ollama:", "library/"}) {
        if (text.starts_with(prefix)) text.erase(0, prefix.size());
      }
      return text.ends_with(kLatest) ? text.substr(0, text.size() - kLatest.size()) : text;
    };
    for (const bool is_exact : {true, false}) {
      for (Entry& entry : entries) {
        const bool is_match = is_exact
                                  ? http::lower_case(entry.named.name) == http::lower_case(name)
                                  : bare(entry.named.name) == bare(name);
        if (!entry.is_removed && (name.empty() || is_match)) return &entry;
      }
    }
    return only_type(bare(name));
  }

  // "MODEL:ADAPTER"; null: not of this form, or no such model.
  struct WithAdapter {
    Entry* entry = nullptr;
    const api::AdapterSource* adapter = nullptr;  // null: the model has no such adapter
  };
  WithAdapter find_adapter(const std::string& name) {
    const std::size_t colon = name.rfind(':');
    Entry* entry = colon == std::string::npos ? nullptr : find_entry(name.substr(0, colon));
    if (entry == nullptr) return {};
    const auto found =
        std::ranges::find(entry->adapters, name.substr(colon + 1), &api::AdapterSource::name);
    return {.entry = entry, .adapter = found == entry->adapters.end() ? nullptr : &*found};
  }

  // Throws ApiError 404. `adapter` is set when the name has one.
  Entry& resolve(const std::string& name, std::string& adapter) {
    if (Entry* entry = find_entry(name)) return *entry;
    const WithAdapter found = find_adapter(name);
    if (found.adapter == nullptr) fail_not_found(name, found.entry);
    adapter = found.adapter->name;
    return *found.entry;
  }

  Entry& resolve(const std::string& name) {
    if (Entry* entry = find_entry(name)) return *entry;
    fail_not_found(name, nullptr);
  }

  [[noreturn]] void fail_not_found(const std::string& name, const Entry* base) {
    std::string all;
    if (base != nullptr && !base->adapters.empty()) {
      for (const api::AdapterSource& adapter : base->adapters)
        all += (all.empty() ? "" : ", ") + adapter.name;
      throw ApiError(
          404, str("model '", name, "' not found; adapters of '", base->named.name, "': ", all),
          "model", "model_not_found");
    }
    for (const std::string& known : names())
      all += (all.empty() ? "" : ", ") + known;
    throw ApiError(404, str("model '", name, "' not found; available: ", all), "model",
                   "model_not_found");
  }

  // Makes an entry unknown to requests. Returns the tasks that tell those that wait for it.
  std::vector<std::function<void()>> retire(Entry& entry) {
    entry.is_removed = true;
    if (entry.is_loading) return {};  // they get the model that is loading
    return take_waiter_tasks(entry, str("model '", entry.named.name, "' was removed"), false);
  }

  // On the loader thread, which alone refers to entries without the lock.
  void erase_removed() {
    std::erase_if(entries, [](const Entry& entry) {
      return entry.is_removed && !entry.model && entry.num_leases == 0 && !entry.is_loading;
    });
  }

  Lease lease_of(Entry& entry) {
    ++entry.num_leases;
    entry.last_used = Clock::now();
    return {entry.model.get(), [self = shared_from_this(), &entry](LoadedModel*) {
              const std::lock_guard lock(self->mutex);
              --entry.num_leases;
              entry.last_used = Clock::now();
              self->wake.notify_all();
            }};
  }

  // Main loop of the loader thread.
  void run() {
    std::unique_lock lock(mutex);
    while (!is_stopping) {
      erase_removed();
      if (unload_failed(lock) || unload_expired(lock)) continue;
      Entry* next = next_to_load();
      if (next != nullptr && evict_for(*next, lock)) {
        load(*next, lock);
      } else {
        wait(next == nullptr ? std::nullopt : drain_for(*next), lock);
      }
    }
  }

  // All models are in use. Drains the longest loaded one when `wanted` has waited long enough;
  // otherwise returns when that will be.
  std::optional<Clock::time_point> drain_for(const Entry& wanted) {
    const auto is_draining = [](const Entry& entry) { return entry.is_draining; };
    if (std::ranges::any_of(entries, is_draining)) return std::nullopt;
    const Clock::time_point time = wanted.waiting_since + seconds_duration(config.switch_seconds);
    if (Clock::now() < time) return time;
    Entry* oldest = nullptr;
    for (Entry& entry : entries) {
      if (entry.model && (oldest == nullptr || entry.loaded_at < oldest->loaded_at))
        oldest = &entry;
    }
    if (oldest != nullptr) oldest->is_draining = true;
    return std::nullopt;
  }

  // `until`: also wakes up then.
  void wait(std::optional<Clock::time_point> until, std::unique_lock<std::mutex>& lock) {
    std::optional<Clock::time_point> first = until;
    for (const Entry& entry : entries) {
      if (!entry.is_idle() || entry.keep_alive_seconds < 0) continue;
      const Clock::time_point end = expiry(entry);
      if (!first || end < *first) first = end;
    }
    if (first) {
      wake.wait_until(lock, *first);
    } else {
      wake.wait(lock);
    }
  }

  static Clock::time_point expiry(const Entry& entry) {
    // Caps at about a year: larger values would overflow the clock.
    return entry.last_used + seconds_duration(std::min(entry.keep_alive_seconds, 3.0e7));
  }

  // Requests for a failed model wait until it has been loaded again.
  bool unload_failed(std::unique_lock<std::mutex>& lock) {
    const auto failed = std::ranges::find_if(
        entries, [](const Entry& entry) { return entry.is_idle() && entry.has_failed(); });
    if (failed == entries.end()) return false;
    unload(*failed, "failed", lock);
    return true;
  }

  void report(const PoolEvent& event) const {
    if (config.on_event) config.on_event(event);
  }

  void report_unlocked(const PoolEvent& event, std::unique_lock<std::mutex>& lock) const {
    lock.unlock();
    report(event);
    lock.lock();
  }

  bool unload_expired(std::unique_lock<std::mutex>& lock) {
    for (Entry& entry : entries) {
      const bool is_expired = entry.keep_alive_seconds >= 0 && Clock::now() >= expiry(entry);
      if (!entry.is_idle() || (!is_expired && !entry.is_removed)) continue;
      const bool is_requested = entry.is_removed || entry.keep_alive_seconds == 0;
      unload(entry, is_requested ? "requested" : "idle", lock);
      return true;
    }
    return false;
  }

  void unload(Entry& entry, const char* reason, std::unique_lock<std::mutex>& lock) {
    std::shared_ptr<LoadedModel> model = std::move(entry.model);
    entry.is_draining = false;
    entry.keep_alive_seconds = config.keep_alive_seconds;
    lock.unlock();
    report({.kind = PoolEvent::Kind::Unloaded,
            .model = model->name(),
            .reason = reason,
            .loaded = model.get()});
    model.reset();
    lock.lock();
  }

  // The model that has waited longest; null: none waits.
  Entry* next_to_load() {
    Entry* next = nullptr;
    for (Entry& entry : entries) {
      if (entry.model || entry.waiters.empty()) continue;
      if (next == nullptr || entry.waiting_since < next->waiting_since) next = &entry;
    }
    return next;
  }

  // Null: no model is idle.
  Entry* least_recently_used_idle() {
    Entry* oldest = nullptr;
    for (Entry& entry : entries) {
      if (entry.is_idle() && (oldest == nullptr || entry.last_used < oldest->last_used))
        oldest = &entry;
    }
    return oldest;
  }

  // Unloads idle models, least recently used first, until there is a slot for `wanted`, and while
  // the host memory looks too small for it. False when loading has to wait for a slot.
  bool evict_for(Entry& wanted, std::unique_lock<std::mutex>& lock) {
    for (;;) {
      const auto num_loaded = static_cast<std::size_t>(std::ranges::count_if(
          entries, [](const Entry& entry) { return entry.model != nullptr; }));
      if (num_loaded == 0) return true;
      const bool has_slot = config.max_loaded == 0 || num_loaded < config.max_loaded;
      if (has_slot && has_memory(wanted)) return true;
      Entry* oldest = least_recently_used_idle();
      if (oldest == nullptr) return has_slot;  // loading checks the memory, and names the numbers
      unload(*oldest, "evicted", lock);
    }
  }

  static bool has_memory(const Entry& wanted) {
    const std::uint64_t available = available_memory();
    if (available == 0) return true;  // unknown on this system
    std::error_code error;
    const std::filesystem::path weights = formats::weights_path(wanted.named.path);
    const bool is_file = std::filesystem::is_regular_file(weights, error);
    const std::uint64_t bytes = is_file
                                    ? std::filesystem::file_size(weights, error)
                                    : read_model_info(wanted.named.name, wanted.named.path).bytes;
    return static_cast<double>(bytes) * kMemoryFactor < static_cast<double>(available);
  }

  // How many models may still be loaded, this one included, and need memory of their own.
  std::size_t num_sharing() const {
    const auto num_loaded = static_cast<std::size_t>(
        std::ranges::count_if(entries, [](const Entry& entry) { return entry.model != nullptr; }));
    const std::size_t max = std::min(config.max_loaded, names().size());
    return max > num_loaded ? max - num_loaded : 1;
  }

  std::shared_ptr<LoadedModel> new_model(const NamedPath& named,
                                         const std::vector<api::AdapterSource>& adapters,
                                         std::size_t num_sharing) const {
    const ModelInfo info = read_model_info(named.name, named.path);
    api::LlmConfig llm = config.llm;
    llm.adapters = adapters;
    llm.default_adapter.clear();  // requests name theirs
    if (info.num_ctx > 0) {
      const std::int64_t max =
          llm.engine.max_model_len > 0 ? llm.engine.max_model_len : info.context_length;
      llm.engine.max_model_len = std::min(info.num_ctx, max);
    }
    llm.engine.gpu_memory_utilization /= static_cast<double>(num_sharing);
    if (config.load) return config.load(info, llm);
    if (config.on_step) {
      llm.on_step = [on_step = config.on_step, name = named.name](const api::StepInfo& step) {
        on_step(name, step);
      };
    }
    return std::make_shared<LoadedModel>(info, llm, config.chat_template);
  }

  // The end of an error that no eviction can prevent; empty when no other model is loaded.
  std::string busy_text() const {
    std::string names;
    for (const Entry& entry : entries) {
      if (entry.model && entry.num_leases > 0)
        names += str(names.empty() ? "" : ", ", entry.named.name);
    }
    return names.empty() ? "" : str("; models in use, which are not unloaded: ", names);
  }

  struct LoadError {
    std::string text = {};
    bool is_out_of_memory = false;
  };

  // When memory is short, unloads the least recently used idle model and tries again. Sets `error`
  // on failure.
  std::shared_ptr<LoadedModel> load_evicting(const Entry& entry,
                                             LoadError& error,
                                             std::unique_lock<std::mutex>& lock) {
    for (;;) {
      std::shared_ptr<LoadedModel> model;
      error = {};
      const std::size_t sharing = num_sharing();
      const std::vector<api::AdapterSource> adapters = entry.adapters;
      lock.unlock();
      try {
        model = new_model(entry.named, adapters, sharing);
      } catch (const OutOfMemory& thrown) {
        error = {.text = thrown.what(), .is_out_of_memory = true};
      } catch (const std::exception& thrown) {
        error = {.text = thrown.what()};
      }
      lock.lock();
      if (model || !error.is_out_of_memory) return model;
      Entry* oldest = least_recently_used_idle();
      if (oldest == nullptr) {
        error.text += busy_text();
        return nullptr;
      }
      unload(*oldest, "evicted", lock);
    }
  }

  void load(Entry& entry, std::unique_lock<std::mutex>& lock) {
    entry.is_loading = true;
    LoadError error;
    const Clock::time_point start = Clock::now();
    report_unlocked({.kind = PoolEvent::Kind::Loading, .model = entry.named.name}, lock);
    std::shared_ptr<LoadedModel> model = load_evicting(entry, error, lock);
    report_unlocked({.kind = model ? PoolEvent::Kind::Loaded : PoolEvent::Kind::LoadFailed,
                     .model = entry.named.name,
                     .reason = error.text,
                     .is_out_of_memory = error.is_out_of_memory,
                     .seconds = std::chrono::duration<double>(Clock::now() - start).count(),
                     .loaded = model.get()},
                    lock);
    entry.is_loading = false;
    entry.model = std::move(model);
    entry.loaded_at = Clock::now();
    std::vector<std::function<void()>> tasks = take_waiter_tasks(entry, error.text, true);
    // Another idle model may have been unloaded instead of the one that was drained.
    for (Entry& other : entries) {
      if (!std::exchange(other.is_draining, false) || !other.model) continue;
      for (auto& task : take_waiter_tasks(other, {}, true))
        tasks.push_back(std::move(task));
    }
    // Without the lock: destroying a dropped task releases its lease, which locks the mutex.
    lock.unlock();
    for (auto& task : tasks)
      post(std::move(task));
    tasks.clear();
    lock.lock();
  }

  // With a lease where there is a model and `is_usable`, else with the error.
  std::vector<std::function<void()>> take_waiter_tasks(Entry& entry,
                                                       const std::string& error,
                                                       bool is_usable) {
    std::vector<std::function<void()>> tasks;
    for (Waiter& waiter : entry.waiters) {
      if (entry.model && is_usable) {
        // Moved: a copy in the task would keep the model in use after `ready` has released it.
        tasks.emplace_back([ready = std::move(waiter.ready), lease = lease_of(entry)]() mutable {
          ready(std::move(lease));
        });
      } else {
        tasks.emplace_back([failed = std::move(waiter.failed), error] { failed(error); });
      }
    }
    num_waiting -= entry.waiters.size();
    entry.waiters.clear();
    return tasks;
  }

  const PoolConfig config;
  const Post post;
  std::mutex mutex;
  std::condition_variable wake;
  // Leases refer to its elements. Only the loader thread erases: it refers to them without the
  // lock.
  std::list<Entry> entries;
  std::size_t num_waiting = 0;
  bool is_stopping = false;
  std::thread thread;
};

ModelPool::ModelPool(PoolConfig config, Post post)
    : state_(std::make_shared<State>(std::move(config), std::move(post))) {
  state_->thread = std::thread([state = state_.get()] { state->run(); });
}

ModelPool::~ModelPool() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->is_stopping = true;
  }
  state_->wake.notify_all();
  state_->thread.join();
  for (State::Entry& entry : state_->entries) {
    entry.waiters.clear();
    entry.model.reset();
  }
}

std::string ModelPool::resolve(const std::string& name) const {
  const std::lock_guard lock(state_->mutex);
  std::string adapter;
  return state_->resolve(name, adapter).named.name;
}

NamedPath ModelPool::find(const std::string& name) const {
  const std::lock_guard lock(state_->mutex);
  return state_->resolve(name).named;
}

ModelPool::Found ModelPool::look_up(const std::string& name) const {
  const std::lock_guard lock(state_->mutex);
  if (const State::Entry* entry = state_->find_entry(name))
    return {.model = entry->named, .adapter = {}};
  const State::WithAdapter found = state_->find_adapter(name);
  if (found.adapter == nullptr) state_->fail_not_found(name, found.entry);
  return {.model = found.entry->named, .adapter = *found.adapter};
}

std::vector<api::AdapterSource> ModelPool::adapters(const std::string& name) const {
  const std::lock_guard lock(state_->mutex);
  return state_->at(name).adapters;
}

void ModelPool::add_adapter(const std::string& name, const api::AdapterSource& source) {
  const std::lock_guard lock(state_->mutex);
  std::vector<api::AdapterSource>& adapters = state_->at(name).adapters;
  std::erase_if(adapters, [&](const auto& adapter) { return adapter.name == source.name; });
  adapters.push_back(source);
}

void ModelPool::remove_adapter(const std::string& name, const std::string& adapter) {
  const std::lock_guard lock(state_->mutex);
  std::erase_if(state_->at(name).adapters,
                [&](const auto& source) { return source.name == adapter; });
}

std::string Lease::name() const {
  return adapter.empty() ? (*this)->name() : str((*this)->name(), ':', adapter);
}

void ModelPool::put(const NamedPath& named) {
  std::vector<std::function<void()>> tasks;
  {
    const std::lock_guard lock(state_->mutex);
    auto at = std::ranges::find_if(state_->entries, [&](const State::Entry& entry) {
      return !entry.is_removed && entry.named.name == named.name;
    });
    if (at != state_->entries.end()) {
      tasks = state_->retire(*at);
      at = std::next(at);
    }
    state_->entries.insert(
        at, {.named = named, .keep_alive_seconds = state_->config.keep_alive_seconds});
    state_->wake.notify_all();
  }
  for (auto& task : tasks)
    state_->post(std::move(task));
}

void ModelPool::remove(const std::string& name) {
  std::vector<std::function<void()>> tasks;
  {
    const std::lock_guard lock(state_->mutex);
    tasks = state_->retire(state_->at(name));
    state_->wake.notify_all();
  }
  for (auto& task : tasks)
    state_->post(std::move(task));
}

void ModelPool::acquire(const std::string& name,
                        Ready ready,
                        Failed failed,
                        std::optional<double> keep_alive_seconds) {
  std::unique_lock lock(state_->mutex);
  std::string adapter;
  State::Entry& entry = state_->resolve(name, adapter);
  const std::string resolved = entry.named.name;
  if (!adapter.empty()) {
    ready = [adapter, ready = std::move(ready)](Lease lease) {
      lease.adapter = adapter;
      ready(std::move(lease));
    };
  }
  if (keep_alive_seconds) entry.keep_alive_seconds = *keep_alive_seconds;
  if (entry.model && !entry.is_draining && !entry.has_failed()) {
    Lease lease = state_->lease_of(entry);
    lock.unlock();
    ready(std::move(lease));
    return;
  }
  if (state_->num_waiting >= state_->config.max_loading) {
    throw busy_error(str(resolved, ": too many requests wait for the model to load, max ",
                         state_->config.max_loading),
                     5);
  }
  if (entry.waiters.empty()) entry.waiting_since = Clock::now();
  entry.waiters.push_back({.ready = std::move(ready), .failed = std::move(failed)});
  ++state_->num_waiting;
  state_->wake.notify_all();
}

void ModelPool::unload(const std::string& name) {
  const std::lock_guard lock(state_->mutex);
  state_->at(name).keep_alive_seconds = 0;
  state_->wake.notify_all();
}

std::vector<std::string> ModelPool::names() const {
  const std::lock_guard lock(state_->mutex);
  return state_->names();
}

ModelInfo ModelPool::info(const std::string& name) const {
  const NamedPath named = look_up(name).model;
  ModelInfo info = read_model_info(named.name, named.path);
  const std::int64_t max_model_len = state_->config.llm.engine.max_model_len;
  if (max_model_len > 0) info.context_length = std::min(info.context_length, max_model_len);
  return info;
}

std::vector<ModelPool::Loaded> ModelPool::loaded() const {
  std::vector<Loaded> all;
  const std::lock_guard lock(state_->mutex);
  for (State::Entry& entry : state_->entries) {
    if (!entry.model) continue;
    const Clock::time_point last_used = entry.last_used;
    all.push_back({.lease = state_->lease_of(entry)});
    entry.last_used = last_used;  // listing does not count as use
    if (entry.keep_alive_seconds >= 0) {
      const double left =
          std::chrono::duration<double>(State::expiry(entry) - Clock::now()).count();
      all.back().expires_in_seconds = std::max(left, 0.0);
    }
  }
  return all;
}

}  // namespace graft::server
