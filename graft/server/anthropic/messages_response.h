// The response of /v1/messages, as one JSON object or as server-sent events. It is a list of
// blocks (thinking, text, tool_use); a stream has one open block at a time.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "graft/server/generation/generation.h"
#include "graft/server/generation/output_parser.h"

namespace graft::server::anthropic {

struct MessagesResponseOptions {
  std::string id = {};
  std::string model = {};
  OutputFormat format = {};
  std::int64_t num_prompt = 0;  // tokens
  bool is_stream = false;
  bool shows_thinking = true;  // false: thinking blocks have no text
};

// The head of an event stream; a ping event is its keep-alive.
http::StreamHead event_head();

class MessagesResponseWriter final : public ResponseWriter {
 public:
  explicit MessagesResponseWriter(MessagesResponseOptions options);

  std::string begin() override;
  std::string append(std::size_t prompt, const api::Update& update) override;
  std::string finish(const Usage& usage) override;
  std::string error(const std::string& message) override;
  std::size_t num_bytes() const override { return num_bytes_; }

 private:
  enum class Kind : std::uint8_t { Thinking, Text, ToolUse };
  struct Block {
    Kind kind = Kind::Text;
    std::string id = {};  // of a call
    std::string name = {};
    std::string text = {};  // of a call: the input as JSON text. Empty in a stream.
  };

  // Events; empty for a response that is not streamed.
  std::string event(const OrderedJson& json) const;
  std::string open(Block block);
  std::string close();
  std::string add_text(Kind kind, const std::string& text);
  std::string add_call(const ToolCall& piece);
  std::string add(const OutputDelta& delta);
  std::string extend(const OrderedJson& delta, const std::string& text);

  void set_stop(const api::Finish& finish);
  OrderedJson message(OrderedJson content, const OrderedJson& usage) const;
  OrderedJson block_json(const Block& block) const;

  MessagesResponseOptions options_;
  OutputParser parser_;
  std::vector<Block> blocks_;
  bool is_open_ = false;  // the last block
  OrderedJson stop_reason_ = nullptr;
  OrderedJson stop_sequence_ = nullptr;
  std::size_t num_bytes_ = 0;
};

}  // namespace graft::server::anthropic
