// A conversation with a model. Earlier turns are in the engine's prefix cache, so each turn
// computes only the new tokens.

#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "graft/api/chat_format.h"
#include "graft/api/llm.h"
#include "graft/chat/reasoning.h"
#include "graft/cli/answer.h"

namespace graft::cli {

class Session {
 public:
  using Show = std::function<void(const chat::ResponseDelta& part)>;

  // Both must outlive the session.
  Session(api::LLM& llm, const api::ChatFormat& format) : llm_(&llm), format_(&format) {}

  // Sends a message, streams the answer to `show` and appends both to the conversation. Throws
  // Error; the conversation is unchanged then.
  const AnswerStats& ask(const std::string& text, const Show& show);

  void reset();  // keeps the system prompt
  void set_system(std::string text) { system_ = std::move(text); }
  const std::string& system() const { return system_; }
  std::size_t num_messages() const { return messages_.size(); }

  // JSON file: {"graft": "conversation", "model", "system", "messages", "sampling"}. Both throw
  // Error; a failed load changes nothing.
  void save(const std::filesystem::path& path) const;
  void load(const std::filesystem::path& path);

  // Sets a sampling parameter, "temperature=0.5". Throws Error that lists the parameters.
  void set(const std::string& assignment);
  std::string settings_text() const;

  const api::LLM& llm() const { return *llm_; }
  const std::optional<AnswerStats>& last_stats() const { return last_stats_; }

  api::SamplingParams params;
  api::Thinking thinking = api::Thinking::ModelDecides;

 private:
  api::LLM* llm_;
  const api::ChatFormat* format_;
  std::string system_;
  OrderedJson messages_ = OrderedJson::array();
  std::optional<AnswerStats> last_stats_;
};

}  // namespace graft::cli
