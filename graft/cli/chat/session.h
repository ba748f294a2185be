// A conversation with a model. Earlier turns are in the engine's prefix cache, so each turn
// computes only the new tokens.

#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "graft/api/chat_format.h"
#include "graft/api/llm.h"
#include "graft/base/text/json.h"
#include "graft/chat/response_delta.h"
#include "graft/cli/answer.h"

namespace graft::cli {

// What happens when a conversation no longer fits into the context.
enum class FullContext : std::uint8_t { DropOldest, Stop };

class Session {
 public:
  using Show = std::function<void(const chat::ResponseDelta& part)>;

  // Both must outlive the session.
  Session(api::LLM& llm, const api::ChatFormat& format) : llm_(&llm), format_(&format) {}

  // Sends a message, streams the answer to `show` and appends both to the conversation. Where the
  // context is full, `full_context` decides; see num_left_out(). Throws Error; the conversation is
  // unchanged then. While a call of a tool is open, the text is its result; null: another call is
  // open, and there is no answer yet.
  const AnswerStats* ask(const std::string& text, const Show& show);
  // Tools that the model may call, in OpenAI's format. Throws Error when they are invalid.
  void set_tools(OrderedJson tools);
  // The calls of the last answer; empty: none.
  OrderedJson last_calls() const;
  // The first of them without a result; null: none.
  OrderedJson open_call() const;
  // Puts an image before the next message. Throws Error when the model reads no images or the file
  // is none.
  void add_image(const std::filesystem::path& path);
  std::size_t num_pending_images() const { return pending_images_.size(); }
  // Answers the last message again, in place of its answer. Throws Error.
  const AnswerStats& retry(const Show& show);
  // Continues the conversation with another model. Both must outlive the session.
  void set_model(api::LLM& llm, const api::ChatFormat& format);

  void reset();  // keeps the system prompt
  void set_system(std::string text) { system_ = std::move(text); }
  const std::string& system() const { return system_; }
  std::size_t num_messages() const { return messages_.size(); }
  // The first messages, which the model no longer sees; /save keeps them.
  std::size_t num_left_out() const { return num_left_out_; }
  std::int64_t max_context() const { return llm_->config().max_model_len; }

  // JSON file: {"graft": "conversation", "model", "system", "messages", "sampling"}; the KV cache
  // is in cache_file(). Both throw Error; a failed load changes nothing. load() returns why the KV
  // cache was not restored and is computed again; empty: it was, or was not saved.
  void save(const std::filesystem::path& path) const;
  std::string load(const std::filesystem::path& path);
  static std::filesystem::path cache_file(std::filesystem::path path) { return path += ".kv"; }

  // Sets a sampling parameter, "temperature=0.5". Throws Error that lists the parameters.
  void set(const std::string& assignment);
  std::string settings_text() const;

  const api::LLM& llm() const { return *llm_; }
  const std::optional<AnswerStats>& last_stats() const { return last_stats_; }
  std::string last_answer() const;          // empty: none
  std::int64_t num_context_tokens() const;  // of the last prompt and its answer

  FullContext full_context = FullContext::DropOldest;
  api::SamplingParams params;
  api::Thinking thinking = api::Thinking::ModelDecides;

 private:
  using Messages = std::vector<OrderedJson>;  // a question, or the results of calls

  const AnswerStats& ask(const Messages& messages, const Show& show);
  api::Conversation conversation_from(std::size_t first) const;
  api::ChatPrompt prompt_with(const Messages& messages, std::size_t first) const;
  // Raises `first` until the prompt leaves room for an answer.
  api::ChatPrompt fitting_prompt(const Messages& messages, std::size_t& first) const;

  api::LLM* llm_;
  const api::ChatFormat* format_;
  std::string system_;
  OrderedJson tools_ = nullptr;  // null: none
  OrderedJson messages_ = OrderedJson::array();
  Messages results_;                         // of the calls of the last message, in their order
  std::vector<OrderedJson> pending_images_;  // parts of the next message
  std::size_t num_left_out_ = 0;
  std::optional<AnswerStats> last_stats_;
};

}  // namespace graft::cli
