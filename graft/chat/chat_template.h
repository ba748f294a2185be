// A model's chat template: Jinja in the environment of Transformers (trim_blocks, lstrip_blocks,
// loop controls, `generation`). Runs sandboxed: no files, no environment, bounded steps, memory,
// output and recursion.

#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "graft/base/text/json.h"

namespace graft::chat {

// The variables of a template.
struct RenderInput {
  OrderedJson messages = OrderedJson::array();
  OrderedJson tools = nullptr;      // list of tool definitions; null: none
  OrderedJson documents = nullptr;  // for retrieval templates
  bool add_generation_prompt = true;
  // Undefined in the template when not set, as in Transformers for a tokenizer without the token.
  std::optional<std::string> bos_token;
  std::optional<std::string> eos_token;
  // Further variables by name ("enable_thinking"); they override the ones above.
  OrderedJson extra = OrderedJson::object();
  // For strftime_now; the current time when not set.
  std::optional<std::chrono::system_clock::time_point> now;
};

// Limits rendering to about a second. A prompt of a million tokens takes a few megabytes and
// 100,000 steps.
struct RenderLimits {
  std::size_t max_steps = 10'000'000;
  std::size_t max_output_bytes = std::size_t{64} << 20U;
  std::size_t max_memory_bytes = std::size_t{512} << 20U;  // of live values
  // Nested statements, expressions and calls; a recursive macro takes about five levels per call.
  // A level costs less than a kilobyte of stack.
  int max_depth = 1000;
};

class ChatTemplate {
 public:
  // Parses the template. `name` begins error messages: "name:12: unexpected '}'". Throws Error.
  ChatTemplate(std::string_view source, const std::string& name);
  ChatTemplate(const ChatTemplate&) = delete;
  ChatTemplate& operator=(const ChatTemplate&) = delete;
  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;
  ~ChatTemplate();

  // Throws Error with the line, also for raise_exception and exceeded limits. Thread-safe.
  std::string render(const RenderInput& input, const RenderLimits& limits = {}) const;

  // Whether the template handles content parts ([{"type": "text", …}]) itself; otherwise content
  // must be text (flatten_content in messages.h). Determined by rendering a message of one part.
  bool reads_content_parts() const;

  // Whether it writes "<image>" for a part {"type": "image"}.
  bool writes_images() const;
  // Whether it handles content that is text.
  bool reads_text() const;

  const std::string& source() const;

 private:
  struct State;
  std::unique_ptr<const State> state_;
};

}  // namespace graft::chat
