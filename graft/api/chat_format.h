// How a model writes conversations: messages to the tokens of a prompt.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graft/api/llm.h"
#include "graft/base/text/json.h"
#include "graft/chat/builtin_templates.h"

namespace graft::api {

enum class Thinking : std::uint8_t { ModelDecides, On, Off };

struct Conversation {
  OrderedJson messages = OrderedJson::array();  // as OpenAI's clients send them
  OrderedJson tools = nullptr;                  // null: none
  Thinking thinking = Thinking::ModelDecides;
  bool add_generation_prompt = true;
  OrderedJson extra = OrderedJson::object();  // further variables for the template
};

struct ChatPrompt {
  std::string text;
  std::vector<TokenId> tokens;
  bool in_thinking = false;  // the answer begins inside <think>
};

class ChatFormat {
 public:
  // `chosen`: the name of a built-in template or a file, instead of the model's own. The LLM must
  // outlive the format. Throws Error, also for a model without a tokenizer.
  explicit ChatFormat(const LLM& llm, const std::string& chosen = {});

  const std::string& warning() const { return selected_.warning; }  // empty: none

  // Throws Error that names the place ("messages[2].content: …"). May be called from any thread.
  ChatPrompt prompt(const Conversation& conversation) const;

 private:
  std::string render(const Conversation& conversation) const;

  const LLM* llm_;
  chat::SelectedTemplate selected_;
  bool reads_parts_;
  bool knows_thinking_;  // the template has a variable for it
};

}  // namespace graft::api
