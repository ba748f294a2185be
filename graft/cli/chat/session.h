// A conversation with a model. What was said before stays in the engine's cache, so that each turn
// computes only what is new.

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
  using Show = std::function<void(const chat::AnswerPart& part)>;

  // Both must outlive the session.
  Session(api::LLM& llm, const api::ChatFormat& format) : llm_(&llm), format_(&format) {}

  // Asks, shows the answer as it comes and keeps both; a question that cannot run is not kept.
  // Throws Error.
  const AnswerStats& ask(const std::string& text, const Show& show);

  void reset();  // all but the system prompt
  void set_system(std::string text) { system_ = std::move(text); }
  const std::string& system() const { return system_; }
  std::size_t num_messages() const { return messages_.size(); }

  // As a JSON file: {"graft": "conversation", "model", "system", "messages", "sampling"}. Throw
  // Error; a file that cannot be read changes nothing.
  void save(const std::filesystem::path& path) const;
  void load(const std::filesystem::path& path);

  // "temperature=0.5"; throws Error that says what can be set.
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
