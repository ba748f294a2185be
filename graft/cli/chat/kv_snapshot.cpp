#include "graft/cli/chat/kv_snapshot.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <string>

#include "graft/base/error.h"
#include "graft/cli/answer.h"

namespace graft::cli {
namespace {

// What the engine's thread has reported of a request.
class RequestEvents {
 public:
  void update(const api::Update& update) {
    {
      const std::lock_guard lock(mutex_);
      has_output_ = true;
      if (update.finish) is_finished_ = true;
      if (update.finish && update.finish->reason == api::FinishReason::Error)
        failure_ = update.finish->message;
    }
    changed_.notify_all();
  }

  // Until the first token, or Ctrl-C.
  void wait_for_output() {
    constexpr std::chrono::milliseconds kPoll{20};
    std::unique_lock lock(mutex_);
    while (!has_output_ && !InterruptScope::is_interrupted())
      changed_.wait_for(lock, kPoll);
  }
  void wait_for_finish() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return is_finished_; });
  }
  std::string failure() {
    const std::lock_guard lock(mutex_);
    return failure_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool has_output_ = false;
  bool is_finished_ = false;
  std::string failure_;
};

// Aborts the request at the end of a scope and waits until the engine has ended it.
struct AbortAtEnd {
  AbortAtEnd(api::LLM& model, api::RequestId id, RequestEvents& reported)
      : llm(model), request(id), events(reported) {}
  AbortAtEnd(const AbortAtEnd&) = delete;
  AbortAtEnd& operator=(const AbortAtEnd&) = delete;
  ~AbortAtEnd() {
    llm.abort(request);
    events.wait_for_finish();
  }

  api::LLM& llm;
  api::RequestId request;
  RequestEvents& events;
};

}  // namespace

void save_kv_snapshot(api::LLM& llm,
                      const api::ChatPrompt& prompt,
                      const std::filesystem::path& path) {
  // A running sequence is saved: it must not reach the end of the context before. It is not paused,
  // because a paused sequence may lose its blocks.
  constexpr std::int64_t kReserved = 64;
  const std::int64_t max_tokens = std::max<std::int64_t>(1, llm.config().max_model_len - kReserved);
  std::vector<api::TokenId> tokens = prompt.tokens;
  std::vector<api::PromptImage> images = prompt.images;
  const std::int64_t excess = prompt.num_tokens() - max_tokens;
  if (excess > 0) {
    // Images are not cut: their tokens and what follows are left out.
    const auto size = static_cast<std::int64_t>(tokens.size());
    const std::int64_t end =
        images.empty() ? size - excess : std::max<std::int64_t>(images[0].position, 1);
    tokens.resize(static_cast<std::size_t>(std::min(end, max_tokens)));
    images.clear();
  }
  const InterruptScope scope;
  RequestEvents events;
  const api::SamplingParams params = {.temperature = 0, .ignore_eos = true};
  const api::RequestId request =
      llm.submit(tokens, params, [&events](const api::Update& update) { events.update(update); },
                 {.images = std::move(images)});
  const AbortAtEnd abort(llm, request, events);
  events.wait_for_output();
  if (!events.failure().empty()) fail(path.string(), ": ", events.failure());
  llm.save({.request = request, .sample = 0}, path);
}

void restore_kv_snapshot(api::LLM& llm, const std::filesystem::path& path) {
  RequestEvents events;
  const api::RequestId request =
      llm.restore(path, [&events](const api::Update& update) { events.update(update); });
  const AbortAtEnd abort(llm, request, events);
}

}  // namespace graft::cli
