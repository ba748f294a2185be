// Renders a conversation with the model's chat template and tokenizes it.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "graft/api/llm.h"
#include "graft/base/text/json.h"
#include "graft/chat/builtin_templates.h"
#include "graft/chat/call_template.h"
#include "graft/formats/chat_traits.h"
#include "graft/tokenizer/special_texts.h"

namespace graft::api {

enum class Thinking : std::uint8_t { ModelDecides, On, Off };

struct Conversation {
  OrderedJson messages = OrderedJson::array();  // OpenAI's format
  OrderedJson tools = nullptr;                  // null: none
  Thinking thinking = Thinking::ModelDecides;
  bool add_generation_prompt = true;
  // The output continues the last message, which must be the assistant's.
  bool continue_final_message = false;
  // False: text that spells a special token ("<|im_start|>") stays text.
  bool parse_special = false;
  // The response is a tool call: no message of another kind is begun for it.
  bool forces_call = false;
  OrderedJson extra = OrderedJson::object();  // additional template variables
};

struct ChatPrompt {
  std::string text;
  std::vector<TokenId> tokens;
  std::vector<std::size_t> cuts = {};  // of the text: tokenizer/special_texts.h
  // Images, each where the text has "<image>": `marks` are its byte positions, and one of `tokens`
  // is its placeholder.
  std::vector<PromptImage> images = {};
  std::vector<std::size_t> marks = {};
  std::int64_t num_image_tokens = 0;  // beyond the placeholders
  bool in_thinking = false;           // the prompt ends inside the reasoning
  bool may_think = false;             // the response may begin with reasoning
  formats::ReasoningTags reasoning = {};
  formats::ToolCallFormat tool_calls = formats::ToolCallFormat::Any;
  chat::CallTemplate call_form = {};  // how the model writes calls

  std::int64_t num_tokens() const {
    return static_cast<std::int64_t>(tokens.size()) + num_image_tokens;
  }
};

// Makes params.structured_output begin after the reasoning where the response begins inside it.
void constrain_after_reasoning(const ChatPrompt& prompt, SamplingParams& params);

class ChatFormat {
 public:
  // `override_template`: a built-in template name or a file, used instead of the model's own. `llm`
  // must outlive the format. Throws Error, also for a model without a tokenizer.
  explicit ChatFormat(const LLM& llm, const std::string& override_template = {});

  const std::string& warning() const { return selected_.warning; }  // empty: none

  // Throws Error that names the invalid field ("messages[2].content: …"). Thread-safe.
  ChatPrompt prompt(const Conversation& conversation) const;
  // The two steps of prompt(): everything but the tokens, and the tokens of its text.
  ChatPrompt render_prompt(const Conversation& conversation) const;
  void encode(ChatPrompt& prompt) const;

 private:
  std::string render(const Conversation& conversation, ChatPrompt& prompt) const;
  OrderedJson adapt_content(OrderedJson messages) const;
  void take_images(OrderedJson& messages, ChatPrompt& prompt) const;
  void find_marks(ChatPrompt& prompt) const;
  ChatPrompt render_turn(const Conversation& conversation) const;
  ChatPrompt render_continued(const Conversation& conversation) const;
  void append(const std::string& text, bool parse_special, ChatPrompt& prompt) const;
  void mark_special_texts(OrderedJson& messages, OrderedJson& tools) const;

  const LLM* llm_;
  chat::SelectedTemplate selected_;
  tokenizer::SpecialTexts special_texts_;
  bool accepts_content_parts_;  // the template handles content as a list of parts
  bool writes_images_;          // … and writes "<image>" for images
  bool reads_text_;             // … or as text
  bool has_thinking_variable_;  // the template has enable_thinking or thinking
  formats::ReasoningTags reasoning_;
  bool has_reasoning_tags_;  // the template contains one
  formats::ToolCallFormat tool_calls_;
  chat::CallTemplate call_form_;
};

}  // namespace graft::api
