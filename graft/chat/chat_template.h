// A model's chat template: Jinja as Transformers runs it (trim_blocks, lstrip_blocks, loop
// controls, `generation`), in a sandbox of its own: no files, no environment, bounded steps, output
// and recursion.

#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "graft/base/text/json.h"

namespace graft::chat {

// What a template can see.
struct RenderInput {
  OrderedJson messages = OrderedJson::array();
  OrderedJson tools = nullptr;      // list of tool definitions; null: none
  OrderedJson documents = nullptr;  // for retrieval templates
  bool add_generation_prompt = true;
  // Not set: undefined in the template, as Transformers leaves out what a tokenizer does not have.
  std::optional<std::string> bos_token;
  std::optional<std::string> eos_token;
  // More variables by name ("enable_thinking"); they win over the ones above.
  OrderedJson extra = OrderedJson::object();
  // For strftime_now; not set: now.
  std::optional<std::chrono::system_clock::time_point> now;
};

// About a second of work at most. Prompts of a million tokens are a few megabytes and 100,000
// steps.
struct RenderLimits {
  std::size_t max_steps = 10'000'000;
  std::size_t max_output_bytes = std::size_t{64} << 20U;
  std::size_t max_memory_bytes = std::size_t{512} << 20U;  // of values that are alive
  // Statements, expressions and calls within each other; a macro that calls itself takes about
  // five. Each costs less than a kilobyte of stack.
  int max_depth = 1000;
};

class ChatTemplate {
 public:
  // Parses. `name` opens error messages: "name:12: unexpected '}'". Throws Error.
  ChatTemplate(std::string_view source, const std::string& name);
  ChatTemplate(const ChatTemplate&) = delete;
  ChatTemplate& operator=(const ChatTemplate&) = delete;
  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;
  ~ChatTemplate();

  // Throws Error with the line, also for raise_exception and when a limit is reached. May be called
  // from several threads.
  std::string render(const RenderInput& input, const RenderLimits& limits = {}) const;

  // Whether it looks into content parts ([{"type": "text", …}]) itself; otherwise content must be
  // text (flatten_content in messages.h). Found by rendering a message of one part.
  bool reads_content_parts() const;

  const std::string& source() const;

 private:
  struct State;
  std::unique_ptr<const State> state_;
};

}  // namespace graft::chat
