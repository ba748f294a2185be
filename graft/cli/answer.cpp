#include "graft/cli/answer.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>

#include <fmt/format.h>

#include "graft/base/error.h"
#include "graft/engine/sequence.h"

namespace graft::cli {
namespace {

volatile std::sig_atomic_t interrupt_signal = 0;

extern "C" void set_interrupted(int /*signal*/) {
  interrupt_signal = 1;
}

// Passes updates from the engine's thread to the caller's.
class UpdateQueue {
 public:
  void push(const api::Update& update) {
    {
      const std::lock_guard lock(mutex_);
      updates_.push_back(update);
    }
    arrived_.notify_one();
  }

  // Returns nothing after a short timeout, so that the caller can check for Ctrl-C.
  std::optional<api::Update> pop() {
    std::unique_lock lock(mutex_);
    constexpr std::chrono::milliseconds kTimeout{20};
    if (!arrived_.wait_for(lock, kTimeout, [&] { return !updates_.empty(); })) return std::nullopt;
    api::Update update = std::move(updates_.front());
    updates_.pop_front();
    return update;
  }

 private:
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<api::Update> updates_;
};

double seconds_between(engine::Clock::time_point from, engine::Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

AnswerStats stats_of(const api::Update& last) {
  AnswerStats stats;
  stats.num_prompt = last.num_prompt;
  stats.num_cached = last.num_cached;
  stats.num_output = last.num_output;
  stats.num_draft_tokens = last.num_draft_tokens;
  stats.num_accepted_tokens = last.num_accepted_tokens;
  stats.finish = *last.finish;
  const auto now = engine::Clock::now();
  const auto first = last.first_token.value_or(now);
  stats.prompt_seconds = seconds_between(last.arrived, first);
  stats.output_seconds = seconds_between(first, now);
  return stats;
}

}  // namespace

AnswerStats stream_answer(api::LLM& llm,
                          const AnswerPrompt& prompt,
                          const api::SamplingParams& params,
                          const std::function<void(std::string_view)>& on_text) {
  const InterruptScope scope;
  // Shared with the callback: when on_text throws, the engine may still push updates.
  const auto queue = std::make_shared<UpdateQueue>();
  const api::RequestId request =
      llm.submit(prompt.prompt, params, [queue](const api::Update& update) { queue->push(update); },
                 {.images = prompt.images});
  bool aborted = false;
  for (;;) {
    if (InterruptScope::is_interrupted() && !aborted) {
      llm.abort(request);
      aborted = true;
    }
    const std::optional<api::Update> update = queue->pop();
    if (!update) continue;
    try {
      if (!update->text.empty() && !aborted) on_text(update->text);
    } catch (...) {
      llm.abort(request);
      throw;
    }
    if (!update->finish) continue;
    if (update->finish->reason == api::FinishReason::Error) fail(update->finish->message);
    AnswerStats stats = stats_of(*update);
    stats.interrupted = aborted;
    return stats;
  }
}

void print_stats(const AnswerStats& stats, std::FILE* out) {
  const auto rate = [](std::int64_t count, double seconds) {
    return static_cast<double>(count) / std::max(seconds, 1e-9);
  };
  const std::int64_t computed = stats.num_prompt - stats.num_cached;
  fmt::print(out, "prompt eval count:    {} tokens, {} of them cached\n", stats.num_prompt,
             stats.num_cached);
  fmt::print(out, "prompt eval duration: {:.3f} s\n", stats.prompt_seconds);
  fmt::print(out, "prompt eval rate:     {:.2f} tokens/s\n", rate(computed, stats.prompt_seconds));
  fmt::print(out, "eval count:           {} tokens\n", stats.num_output);
  // The time to first token is counted as prompt time.
  fmt::print(out, "eval duration:        {:.3f} s\n", stats.output_seconds);
  fmt::print(out, "eval rate:            {:.2f} tokens/s\n",
             stats.num_output > 1 ? rate(stats.num_output - 1, stats.output_seconds) : 0.0);
  if (stats.num_draft_tokens == 0) return;
  fmt::print(out, "draft tokens:         {}, {} of them accepted\n", stats.num_draft_tokens,
             stats.num_accepted_tokens);
}

InterruptScope::InterruptScope() {
  interrupt_signal = 0;
  struct sigaction action = {};
  action.sa_handler = set_interrupted;
  ::sigemptyset(&action.sa_mask);
  ::sigaction(SIGINT, &action, &previous_);
}

InterruptScope::~InterruptScope() {
  ::sigaction(SIGINT, &previous_, nullptr);
}

bool InterruptScope::is_interrupted() {
  return interrupt_signal != 0;
}

}  // namespace graft::cli
