// Splits a streamed response in the Harmony format of GPT-OSS into reasoning, content and tool
// calls. A response is a list of messages, of which the prompt already wrote the first
// "<|start|>assistant":
//
//   <|channel|>analysis<|message|>…<|end|>                               reasoning
//   <|start|>assistant<|channel|>commentary<|message|>…<|end|>           content
//   <|start|>assistant<|channel|>commentary to=functions.f <|constrain|>json<|message|>{…}<|call|>
//   <|start|>assistant<|channel|>final<|message|>…<|return|>             content
//
// A tool call is returned as content between the markers of tool_format.h, whatever the order of
// its header. The result does not depend on how the text is divided into chunks.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "graft/chat/response_delta.h"

namespace graft::chat {

// What the answer follows, without a channel of reasoning and tool calls.
inline constexpr std::string_view kHarmonyFinal = "<|channel|>final<|message|>";

class HarmonySplitter {
 public:
  // `open`: the prompt ends inside a message of the channel analysis.
  explicit HarmonySplitter(bool open = false);

  ResponseDelta feed(std::string_view text);
  ResponseDelta finish();

  bool is_thinking() const { return state_ == State::Body && kind_ == Kind::Reasoning; }

 private:
  enum class State : std::uint8_t { Start, Header, Body, Between };
  enum class Kind : std::uint8_t { Content, Reasoning, Call };

  bool advance(ResponseDelta& out, bool at_end);
  bool advance_start(bool at_end);
  bool advance_header(ResponseDelta& out);
  bool advance_body(ResponseDelta& out, bool at_end);
  void begin_message(ResponseDelta& out, std::string_view header);
  void end_message(ResponseDelta& out);
  void add(ResponseDelta& out, std::string_view text);

  State state_;
  Kind kind_;
  bool has_reasoning_ = false;
  bool has_content_ = false;
  bool is_new_ = false;  // no text of the message was returned yet
  std::string held_;     // input not returned yet
};

}  // namespace graft::chat
