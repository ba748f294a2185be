// Downloads of models while the server runs. Requests for the same model share one download; it is
// cancelled when the last of them has left, and the next one continues it. Thread-safe.

#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "graft/hub/environment.h"
#include "graft/hub/model_ref.h"

namespace graft::server {

// As Ollama's API reports it.
struct PullProgress {
  std::string status = {};
  std::string digest = {};  // of a file; empty: of no file
  std::uint64_t total = 0;  // bytes of the file; 0: unknown
  std::uint64_t completed = 0;
};

struct PullListener {
  // Both run on the thread of the download.
  std::function<void(const PullProgress& progress)> on_progress = {};
  // Once, after the last progress: an error, or the path of the model.
  std::function<void(const std::string& error, const std::filesystem::path& path)> on_end = {};
};

class Pulls {
 public:
  static constexpr std::size_t kMaxRunning = 4;

  explicit Pulls(hub::Environment env);
  Pulls(const Pulls&) = delete;
  Pulls& operator=(const Pulls&) = delete;
  ~Pulls();  // cancels and waits

  // Starts a download or joins the one that runs. Returns the id for leave(). Throws ApiError 429
  // when kMaxRunning others run, 503 after stop().
  std::uint64_t add(const hub::ModelRef& ref, PullListener listener);
  void leave(std::uint64_t id);
  // Cancels all; they end with an error.
  void stop();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace graft::server
