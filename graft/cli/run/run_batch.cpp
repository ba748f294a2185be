#include "graft/cli/run/run_batch.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <memory>
#include <mutex>
#include <optional>

#include <fmt/format.h>

#include "graft/base/error.h"
#include "graft/base/progress.h"
#include "graft/chat/reasoning.h"
#include "graft/cli/answer.h"
#include "graft/cli/options/rule_options.h"
#include "graft/cli/terminal.h"

namespace graft::cli {
namespace {

constexpr std::array<std::string_view, 14> kKeys = {
    "custom_id",   "prompt", "messages", "tools", "max_tokens", "max_completion_tokens",
    "temperature", "top_p",  "top_k",    "min_p", "seed",       "stop",
    "model",       "n"};

void check_keys(const OrderedJson& object) {
  for (const auto& [key, value] : object.items()) {
    if (std::ranges::find(kKeys, key) == kKeys.end()) fail("unknown key \"", key, "\"");
  }
  if (object.value("n", 1) != 1) fail("\"n\" must be 1");
  if (object.contains("prompt") == object.contains("messages"))
    fail(R"(expected either "prompt" or "messages")");
}

template <class T>
void read_value(const OrderedJson& object, const char* key, T& out) {
  if (object.contains(key)) out = object.at(key).get<T>();
}

api::SamplingParams read_params(const OrderedJson& object, api::SamplingParams params) {
  read_value(object, "temperature", params.temperature);
  read_value(object, "top_p", params.top_p);
  read_value(object, "top_k", params.top_k);
  read_value(object, "min_p", params.min_p);
  if (object.contains("seed")) params.seed = object.at("seed").get<std::uint64_t>();
  for (const char* key : {"max_tokens", "max_completion_tokens"}) {
    if (object.contains(key)) params.max_tokens = object.at(key).get<std::int64_t>();
  }
  if (object.contains("stop")) {
    const OrderedJson& stop = object.at("stop");
    if (stop.is_string()) {
      params.stop = {stop.get<std::string>()};
    } else {
      params.stop = stop.get<std::vector<std::string>>();
    }
  }
  return params;
}

BatchLine read_line(const OrderedJson& json, const SamplingOptions& sampling, bool raw) {
  if (!json.is_object()) fail("expected an object, got ", json.type_name());
  // OpenAI's batch files: {"custom_id": …, "method": …, "url": …, "body": {…}}.
  const OrderedJson& object = json.contains("body") ? json.at("body") : json;
  if (!object.is_object()) fail("\"body\": expected an object, got ", object.type_name());
  check_keys(object);
  BatchLine line;
  line.id = json.value("custom_id", OrderedJson());
  line.params = read_params(object, sampling.params());
  line.conversation.thinking = sampling.thinking();
  line.conversation.tools = object.value("tools", OrderedJson());
  if (object.contains("messages")) {
    line.conversation.messages = object.at("messages");
    return line;
  }
  line.prompt = object.at("prompt").get<std::string>();
  line.raw = raw;
  if (!sampling.system.empty())
    line.conversation.messages.push_back({{"role", "system"}, {"content", sampling.system}});
  line.conversation.messages.push_back({{"role", "user"}, {"content", line.prompt}});
  return line;
}

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

  OrderedJson result(std::size_t index) const {
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

  bool has_error(std::size_t index) const { return !answers_[index]->error.empty(); }

 private:
  void submit_line(std::size_t index, const api::ChatFormat& format) {
    const BatchLine& line = lines_[index];
    api::Prompt prompt = line.prompt;
    api::SamplingParams params = line.params;
    if (!line.raw) {
      const api::ChatPrompt made = format.prompt(line.conversation);
      prompt = made.tokens;
      if (made.reasoning.is_harmony) params.skip_special_tokens = false;
      api::constrain_after_reasoning(made, params);
      answers_[index]->splitter = chat::ReasoningSplitter(made.in_thinking, made.reasoning);
    }
    llm_.submit(prompt, params, [self = shared_from_this(), index](const api::Update& update) {
      self->add(index, update);
    });
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

std::vector<BatchLine> read_batch(const std::string& file,
                                  const SamplingOptions& sampling,
                                  bool raw) {
  const std::string text = read_text_file(file);
  std::vector<BatchLine> lines;
  std::size_t number = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = std::string_view(text).substr(at, end - at);
    at = end + 1;
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const std::string where = str(file, ":", number);
    try {
      lines.push_back(read_line(parse_ordered_json(line, where), sampling, raw));
    } catch (const OrderedJson::exception& error) {
      fail(where, ": ", error.what());
    } catch (const Error& error) {
      const std::string what = error.what();
      fail(what.starts_with(where) ? what : str(where, ": ", what));
    }
  }
  if (lines.empty()) fail(file, ": no requests in the file");
  return lines;
}

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
