// Splits a streamed response into reasoning (<think> … </think>) and content. The result does not
// depend on how the text is divided into chunks.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "graft/chat/harmony.h"
#include "graft/chat/response_delta.h"
#include "graft/formats/chat_traits.h"

namespace graft::chat {

// Reasoning models begin their response with <think> … </think>. The tags and the whitespace around
// the reasoning are dropped. A <think> later in the text is content.
class ReasoningSplitter {
 public:
  // `open`: the prompt already ends with the opening tag, so the response begins inside the
  // reasoning. The text of the tags must outlive the splitter.
  explicit ReasoningSplitter(bool open = false, const formats::ReasoningTags& tags = {});

  // Returns the text that is final; a suffix that may become a tag is held back.
  ResponseDelta feed(std::string_view text);
  // Call at the end of the response: returns the text that was held back.
  ResponseDelta finish();

  bool is_thinking() const {
    return tags_.is_harmony ? harmony_.is_thinking() : state_ == State::Thinking;
  }

 private:
  enum class State : std::uint8_t { Start, Thinking, AfterThinking, Content };

  bool advance(ResponseDelta& out, bool at_end);

  formats::ReasoningTags tags_;
  State state_;
  bool has_text_ = false;    // whether reasoning other than leading whitespace was returned
  std::string held_;         // input not returned yet
  HarmonySplitter harmony_;  // instead, for a response in channels
};

// Whether a prompt ends with an opening tag, as the templates of some reasoning models write it.
bool ends_in_thinking(std::string_view prompt, const formats::ReasoningTags& tags = {});

}  // namespace graft::chat
