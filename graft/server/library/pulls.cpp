#include "graft/server/library/pulls.h"

#include <chrono>
#include <exception>
#include <map>
#include <mutex>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

#include "graft/base/text/str.h"
#include "graft/hub/pull.h"
#include "graft/server/api_error.h"

namespace graft::server {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kInterval{100};  // between two reports of the same file

// "sha256:HEX"; the path of a file without a SHA-256.
std::string digest_of(const hub::RemoteFile& file) {
  const bool is_sha256 = file.hash.kind == hub::ExpectedHash::Kind::Sha256;
  return is_sha256 ? str("sha256:", file.hash.hex) : file.path;
}

// Ollama's layers have no other name than the start of their digest.
std::string status_of(const hub::RemoteModel& model, const hub::RemoteFile& file) {
  constexpr std::size_t kDigits = 12;
  const bool is_layer = model.ref.source == hub::Source::Ollama;
  return str("pulling ", is_layer ? file.hash.hex.substr(0, kDigits) : file.path);
}

}  // namespace

struct Pulls::State {
  struct Pull {
    hub::ModelRef ref = {};
    std::map<std::uint64_t, PullListener> listeners = {};
    std::stop_source stop = {};
    bool is_running = true;  // new requests may join
    bool has_ended = false;
    std::thread thread = {};
  };

  explicit State(hub::Environment given) : env(std::move(given)) {}

  static std::vector<PullListener> listeners_of(const Pull& pull) {
    std::vector<PullListener> copies;
    for (const auto& [id, listener] : pull.listeners)
      copies.push_back(listener);
    return copies;
  }

  void report(const Pull& pull, const PullProgress& progress) {
    std::vector<PullListener> listeners;
    {
      const std::lock_guard lock(mutex);
      listeners = listeners_of(pull);
    }
    for (const PullListener& listener : listeners)
      listener.on_progress(progress);
  }

  std::filesystem::path download(Pull& pull) {
    report(pull, {.status = "pulling manifest"});
    hub::FetchOptions options;
    options.download.http.stop = pull.stop.get_token();
    const hub::RemoteModel model = hub::look_up(pull.ref, env, options.download.http);
    PullProgress progress;
    Clock::time_point last = {};
    options.on_file = [&](std::size_t index) {
      const hub::RemoteFile& file = model.chosen.files[index];
      progress = {.status = status_of(model, file), .digest = digest_of(file), .total = file.size};
      report(pull, progress);
      last = Clock::now();
    };
    options.download.on_bytes = [&](std::uint64_t bytes) {
      progress.completed += bytes;
      if (progress.completed < progress.total && Clock::now() - last < kInterval) return;
      report(pull, progress);
      last = Clock::now();
    };
    options.on_finish = [&] {
      report(pull, {.status = "verifying sha256 digest"});
      report(pull, {.status = "writing manifest"});
    };
    return hub::fetch(model, env, options);
  }

  void run(Pull& pull) {
    std::string error;
    std::filesystem::path path;
    try {
      path = download(pull);
    } catch (const std::exception& thrown) {
      error = thrown.what();
    }
    std::vector<PullListener> listeners;
    {
      const std::lock_guard lock(mutex);
      pull.is_running = false;
      listeners = listeners_of(pull);
      pull.listeners.clear();
    }
    for (const PullListener& listener : listeners)
      listener.on_end(error, path);
    const std::lock_guard lock(mutex);
    pull.has_ended = true;
  }

  // Joins the threads that have ended. With the lock.
  void clean() {
    std::erase_if(pulls, [](const std::unique_ptr<Pull>& pull) {
      if (!pull->has_ended) return false;
      pull->thread.join();
      return true;
    });
  }

  const hub::Environment env;
  std::mutex mutex;
  std::vector<std::unique_ptr<Pull>> pulls;
  std::uint64_t last_id = 0;
  bool is_stopped = false;
};

Pulls::Pulls(hub::Environment env) : state_(std::make_unique<State>(std::move(env))) {}

Pulls::~Pulls() {
  stop();
  for (const auto& pull : state_->pulls)
    pull->thread.join();
}

std::uint64_t Pulls::add(const hub::ModelRef& ref, PullListener listener) {
  const std::lock_guard lock(state_->mutex);
  if (state_->is_stopped) throw ApiError(503, "the server is shutting down");
  state_->clean();
  const std::uint64_t id = ++state_->last_id;
  std::size_t num_running = 0;
  for (const auto& pull : state_->pulls) {
    if (!pull->is_running) continue;
    ++num_running;
    if (!(pull->ref == ref)) continue;
    pull->listeners.emplace(id, std::move(listener));
    return id;
  }
  if (num_running >= kMaxRunning)
    throw busy_error(str(num_running, " models are being pulled, max ", kMaxRunning), 10);
  auto pull = std::make_unique<State::Pull>();
  pull->ref = ref;
  pull->listeners.emplace(id, std::move(listener));
  State::Pull& started = *pull;
  state_->pulls.push_back(std::move(pull));
  started.thread = std::thread([state = state_.get(), &started] { state->run(started); });
  return id;
}

void Pulls::leave(std::uint64_t id) {
  PullListener left;  // destroyed without the lock: it may own its request
  const std::lock_guard lock(state_->mutex);
  for (const auto& pull : state_->pulls) {
    const auto found = pull->listeners.find(id);
    if (found == pull->listeners.end()) continue;
    left = std::move(found->second);
    pull->listeners.erase(found);
    if (!pull->listeners.empty()) continue;
    pull->is_running = false;
    pull->stop.request_stop();
  }
}

void Pulls::stop() {
  const std::lock_guard lock(state_->mutex);
  state_->is_stopped = true;
  for (const auto& pull : state_->pulls) {
    pull->is_running = false;
    pull->stop.request_stop();
  }
}

}  // namespace graft::server
