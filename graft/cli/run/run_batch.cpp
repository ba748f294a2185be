#include "graft/cli/run/run_batch.h"

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <ctime>
#include <memory>
#include <mutex>
#include <optional>

#include <fmt/format.h>

#include "graft/base/error.h"
#include "graft/base/progress.h"
#include "graft/chat/reasoning.h"
#include "graft/cli/answer.h"
#include "graft/cli/terminal.h"
#include "graft/cli/text_file.h"

namespace graft::cli {
namespace {

// The answer to one line, filled by the engine's thread.
struct PendingAnswer {
  chat::ReasoningSplitter splitter;
  chat::ResponseDelta text;
  std::optional<api::Update> last;
  std::string error;

  bool is_done() const { return last.has_value() || !error.empty(); }
};

// Shared with the callbacks of its requests, some of which may still run after Ctrl-C.
class Batch : public std::enable_shared_from_this<Batch> {
 public:
  Batch(api::LLM& llm, const std::vector<BatchLine>& lines) : llm_(llm), lines_(lines) {
    for (std::size_t i = 0; i < lines.size(); ++i)
      answers_.push_back(std::make_unique<PendingAnswer>());
  }

  void submit(const api::ChatFormat& format) {
    for (std::size_t i = 0; i < lines_.size(); ++i) {
      try {
        submit_line(i, format);
      } catch (const Error& error) {
        answers_[i]->error = error.what();
      } catch (const OrderedJson::exception&) {
        answers_[i]->error = "the messages or tools have a value of the wrong type";
      }
    }
  }

  // Waits for an answer; false when interrupted by Ctrl-C.
  bool wait_for(std::size_t index) {
    constexpr std::chrono::milliseconds kTimeout{50};
    std::unique_lock lock(mutex_);
    while (!changed_.wait_for(lock, kTimeout, [&] { return answers_[index]->is_done(); })) {
      if (InterruptScope::is_interrupted()) return false;
    }
    return true;
  }

  // In the form of the line.
  OrderedJson result(std::size_t index) const {
    return lines_[index].is_openai ? openai_result(index) : own_result(index);
  }

  bool has_error(std::size_t index) const { return !answers_[index]->error.empty(); }

 private:
  OrderedJson own_result(std::size_t index) const {
    const PendingAnswer& answer = *answers_[index];
    OrderedJson json;
    json["index"] = index;
    if (!lines_[index].id.is_null()) json["custom_id"] = lines_[index].id;
    if (!answer.error.empty()) {
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

  // A line of OpenAI's output files.
  OrderedJson openai_result(std::size_t index) const {
    const PendingAnswer& answer = *answers_[index];
    OrderedJson json = {{"id", fmt::format("batch_req_{}", index)},
                        {"custom_id", lines_[index].id},
                        {"response", nullptr},
                        {"error", nullptr}};
    if (!answer.error.empty()) {
      json["error"] = {{"code", "invalid_request"}, {"message", answer.error}};
      return json;
    }
    json["response"] = {{"status_code", 200},
                        {"request_id", fmt::format("req_{}", index)},
                        {"body", openai_body_of(index)}};
    return json;
  }

  OrderedJson openai_body_of(std::size_t index) const {
    const PendingAnswer& answer = *answers_[index];
    const api::Update& last = *answer.last;
    OrderedJson choice = {{"index", 0}};
    if (lines_[index].raw) {
      choice["text"] = answer.text.content;
    } else {
      choice["message"] = {{"role", "assistant"}, {"content", answer.text.content}};
      if (!answer.text.reasoning.empty())
        choice["message"]["reasoning_content"] = answer.text.reasoning;
    }
    choice["logprobs"] = nullptr;
    choice["finish_reason"] = to_string(last.finish->reason);
    const bool is_raw = lines_[index].raw;
    return {{"id", fmt::format("{}-{}", is_raw ? "cmpl" : "chatcmpl", index)},
            {"object", is_raw ? "text_completion" : "chat.completion"},
            {"created", std::time(nullptr)},
            {"model", llm_.source().config().name},
            {"choices", OrderedJson::array({choice})},
            {"usage",
             {{"prompt_tokens", last.num_prompt},
              {"completion_tokens", last.num_output},
              {"total_tokens", last.num_prompt + last.num_output},
              {"prompt_tokens_details", {{"cached_tokens", last.num_cached}}}}}};
  }

  void submit_line(std::size_t index, const api::ChatFormat& format) {
    const BatchLine& line = lines_[index];
    if (!line.error.empty()) fail(line.error);
    api::Prompt prompt = line.prompt;
    api::SamplingParams params = line.params;
    std::vector<api::PromptImage> images;
    if (!line.raw) {
      const api::ChatPrompt made = format.prompt(line.conversation);
      prompt = made.tokens;
      images = made.images;
      if (made.reasoning.is_harmony) params.skip_special_tokens = false;
      api::constrain_after_reasoning(made, params);
      answers_[index]->splitter = chat::ReasoningSplitter(made.in_thinking, made.reasoning);
    }
    llm_.submit(
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
    changed_.notify_all();
  }

  api::LLM& llm_;
  const std::vector<BatchLine>& lines_;
  std::vector<std::unique_ptr<PendingAnswer>> answers_;
  std::mutex mutex_;
  std::condition_variable changed_;
};

}  // namespace

int run_batch(api::LLM& llm,
              const std::vector<BatchLine>& lines,
              const std::string& chat_template,
              const std::string& output) {
  const InterruptScope scope;
  const api::ChatFormat format(llm, chat_template);
  if (!format.warning().empty()) warn(format.warning());
  const auto batch = std::make_shared<Batch>(llm, lines);
  batch->submit(format);
  Progress progress("batch", lines.size(), stderr, "answers");
  std::string text;
  bool failed = false;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (!batch->wait_for(i)) return 130;
    failed = failed || batch->has_error(i);
    const std::string line =
        batch->result(i).dump(-1, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
    if (output.empty()) {
      std::fwrite(line.data(), 1, line.size(), stdout);
      std::fflush(stdout);
    } else {
      text += line;
    }
    progress.advance(1, "");
  }
  progress.finish();
  if (!output.empty()) write_text_file(output, text);
  return failed ? 1 : 0;
}

}  // namespace graft::cli
