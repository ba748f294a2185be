#include "graft/cli/run/run_batch.h"

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdio>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "graft/api/chat_format.h"
#include "graft/api/llm.h"
#include "graft/base/error.h"
#include "graft/base/progress.h"
#include "graft/base/text/json.h"
#include "graft/chat/reasoning.h"
#include "graft/cli/answer.h"
#include "graft/cli/terminal.h"
#include "graft/cli/text_file.h"
#include "graft/server/api_error.h"
#include "graft/server/http/message.h"
#include "graft/server/json_text.h"

namespace graft::cli {
namespace {

// Requests that are submitted before the first of them is answered: more than run at once.
constexpr std::size_t kMaxSubmitted = 1024;

// The answer to one line, filled by other threads.
struct PendingAnswer {
  chat::ReasoningSplitter splitter;
  chat::ResponseDelta text;
  std::optional<api::Update> last;
  std::optional<server::http::Response> response;  // of a line in OpenAI's form
  std::string error;

  bool is_done() const { return last || response || !error.empty(); }
};

// The message of a response {"error": {"message": …}}.
std::string message_of(const server::http::Response& response) {
  const Json body = Json::parse(response.body, nullptr, false);
  if (!body.is_object() || !body.contains("error") || !body["error"].is_object()) return "failed";
  return body["error"].value("message", "failed");
}

// Shared with the callbacks of its requests, some of which may still run after Ctrl-C.
class Batch : public std::enable_shared_from_this<Batch> {
 public:
  Batch(server::LocalApi& api, std::vector<BatchLine> lines) : api_(api), lines_(std::move(lines)) {
    for (std::size_t i = 0; i < lines_.size(); ++i)
      answers_.push_back(std::make_unique<PendingAnswer>());
  }

  // Waits for an answer, and submits others meanwhile; false when interrupted by Ctrl-C.
  bool wait_for(std::size_t index) {
    constexpr std::chrono::milliseconds kTimeout{50};
    for (;;) {
      while (next_ < lines_.size() && num_running() < kMaxSubmitted)
        submit(next_++);
      std::unique_lock lock(mutex_);
      if (answers_[index]->is_done()) return true;
      changed_.wait_for(lock, kTimeout);
      if (InterruptScope::is_interrupted()) return false;
    }
  }

  // In the form of the line. Frees the answer.
  std::string take_result(std::size_t index) {
    const std::lock_guard lock(mutex_);
    const std::unique_ptr<PendingAnswer> answer = std::move(answers_[index]);
    return lines_[index].is_openai ? openai_result(index, *answer)
                                   : server::ordered_text(own_result(index, *answer));
  }

  bool has_failed() const { return has_failed_; }

 private:
  std::size_t num_running() {
    const std::lock_guard lock(mutex_);
    return num_running_;
  }

  OrderedJson own_result(std::size_t index, const PendingAnswer& answer) {
    OrderedJson json;
    json["index"] = index;
    if (!lines_[index].id.is_null()) json["custom_id"] = lines_[index].id;
    if (!answer.error.empty()) {
      has_failed_ = true;
      json["error"] = answer.error;
      return json;
    }
    json["text"] = answer.text.content;
    if (!answer.text.reasoning.empty()) json["reasoning"] = answer.text.reasoning;
    json["finish_reason"] = to_string(answer.last->finish->reason);
    json["prompt_tokens"] = answer.last->num_prompt;
    json["cached_tokens"] = answer.last->num_cached;
    json["completion_tokens"] = answer.last->num_output;
    return json;
  }

  // A line of OpenAI's output files. The body is the text of the response.
  std::string openai_result(std::size_t index, const PendingAnswer& answer) {
    server::JsonObjectText json(
        {{"id", fmt::format("batch_req_{}", index)}, {"custom_id", lines_[index].id}});
    OrderedJson error = nullptr;
    if (answer.response) {
      const server::http::Response& response = *answer.response;
      server::JsonObjectText envelope(
          {{"status_code", response.status}, {"request_id", fmt::format("req_{}", index)}});
      envelope.add("body", response.body);
      json.add("response", envelope.take());
      if (response.status != kOk)
        error = {{"code", "request_failed"}, {"message", message_of(response)}};
    } else {
      json.add("response", "null");
      error = {{"code", "invalid_line"}, {"message", answer.error}};
    }
    has_failed_ = has_failed_ || !error.is_null();
    json.add("error", server::ordered_text(error));
    return json.take();
  }

  void submit(std::size_t index) {
    {
      const std::lock_guard lock(mutex_);
      ++num_running_;
    }
    try {
      submit_line(index);
    } catch (const Error& error) {
      fail_line(index, error.what());
    } catch (const server::ApiError& error) {  // the model has no tokenizer
      fail_line(index, error.what());
    } catch (const OrderedJson::exception&) {
      fail_line(index, "the messages or tools have a value of the wrong type");
    }
  }

  void submit_line(std::size_t index) {
    const BatchLine& line = lines_[index];
    if (!line.error.empty()) fail(line.error);
    if (line.is_openai) {
      api_.post(line.url, server::ordered_text(line.body),
                [self = shared_from_this(), index](const server::http::Response& response) {
                  const std::lock_guard lock(self->mutex_);
                  self->answers_[index]->response = response;
                  self->end_line();
                });
      return;
    }
    api::Prompt prompt = line.prompt;
    api::SamplingParams params = line.params;
    std::vector<api::PromptImage> images;
    if (!line.raw) {
      const api::ChatPrompt made = api_.model().format().prompt(line.conversation);
      prompt = made.tokens;
      images = made.images;
      if (made.reasoning.is_harmony) params.skip_special_tokens = false;
      api::constrain_after_reasoning(made, params);
      answers_[index]->splitter = chat::ReasoningSplitter(made.in_thinking, made.reasoning);
    }
    api_.model().llm().submit(
        prompt, params,
        [self = shared_from_this(), index](const api::Update& update) { self->add(index, update); },
        {.images = std::move(images)});
  }

  void add(std::size_t index, const api::Update& update) {
    const std::lock_guard lock(mutex_);
    PendingAnswer& answer = *answers_[index];
    const auto append = [&](const chat::ResponseDelta& part) {
      answer.text.reasoning += part.reasoning;
      answer.text.content += part.content;
    };
    if (lines_[index].raw) {
      answer.text.content += update.text;
    } else {
      append(answer.splitter.feed(update.text));
    }
    if (!update.finish) return;
    if (!lines_[index].raw) append(answer.splitter.finish());
    if (update.finish->reason == api::FinishReason::Error) answer.error = update.finish->message;
    answer.last = update;
    end_line();
  }

  void fail_line(std::size_t index, const std::string& message) {
    const std::lock_guard lock(mutex_);
    answers_[index]->error = message;
    end_line();
  }

  // Under the lock.
  void end_line() {
    --num_running_;
    changed_.notify_all();
  }

  static constexpr int kOk = 200;

  server::LocalApi& api_;
  const std::vector<BatchLine> lines_;
  std::vector<std::unique_ptr<PendingAnswer>> answers_;
  std::size_t next_ = 0;  // the first line that is not submitted
  bool has_failed_ = false;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t num_running_ = 0;
};

}  // namespace

int run_batch(server::LocalApi& api, std::vector<BatchLine> lines, const std::string& output) {
  const InterruptScope scope;
  const std::size_t num_lines = lines.size();
  const auto batch = std::make_shared<Batch>(api, std::move(lines));
  Progress progress("batch", num_lines, stderr, "answers");
  std::string text;
  for (std::size_t i = 0; i < num_lines; ++i) {
    if (!batch->wait_for(i)) return 130;
    const std::string line = batch->take_result(i) + "\n";
    if (output.empty()) {
      std::fwrite(line.data(), 1, line.size(), stdout);
      flush_output();
    } else {
      text += line;
    }
    progress.advance(1, "");
  }
  progress.finish();
  if (!output.empty()) write_text_file(output, text);
  return batch->has_failed() ? 1 : 0;
}

}  // namespace graft::cli
