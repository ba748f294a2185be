#include "graft/server/anthropic/messages_response.h"

#include <utility>

#include "graft/base/text/str.h"
#include "graft/server/api_error.h"
#include "graft/server/json_text.h"

namespace graft::server::anthropic {
namespace {

constexpr const char* kPath = "/v1/messages";  // for the format of errors

std::string event_text(const std::string& name, const std::string& data) {
  return str("event: ", name, "\ndata: ", data, "\n\n");
}

// Tokens from the prefix cache are not in input_tokens. Nothing is charged for writing to it.
OrderedJson usage_json(std::int64_t num_prompt, std::int64_t num_cached, std::int64_t num_output) {
  return {{"input_tokens", num_prompt - num_cached},
          {"cache_creation_input_tokens", 0},
          {"cache_read_input_tokens", num_cached},
          {"output_tokens", num_output},
          {"service_tier", "standard"}};
}

// The input of a call; empty where its pieces follow.
OrderedJson input_of(const std::string& text) {
  return text.empty() ? OrderedJson::object() : parse_ordered_json(text, "input");
}

}  // namespace

http::StreamHead event_head() {
  return {.content_type = "text/event-stream; charset=utf-8",
          .keep_alive = event_text("ping", R"({"type":"ping"})")};
}

MessagesResponseWriter::MessagesResponseWriter(MessagesResponseOptions options)
    : options_(std::move(options)), parser_(options_.format, !options_.is_stream) {}

std::string MessagesResponseWriter::event(const OrderedJson& json) const {
  if (!options_.is_stream) return {};
  return event_text(json["type"].get<std::string>(), ordered_text(json));
}

OrderedJson MessagesResponseWriter::message(OrderedJson content, const OrderedJson& usage) const {
  return {{"id", options_.id},
          {"type", "message"},
          {"role", "assistant"},
          {"model", options_.model},
          {"content", std::move(content)},
          {"stop_reason", stop_reason_},
          {"stop_sequence", stop_sequence_},
          {"usage", usage}};
}

std::string MessagesResponseWriter::begin() {
  const OrderedJson start = message(OrderedJson::array(), usage_json(options_.num_prompt, 0, 0));
  return event({{"type", "message_start"}, {"message", start}}) + event({{"type", "ping"}});
}

// Signatures are opaque to clients, which send them back; here they have no meaning.
OrderedJson MessagesResponseWriter::block_json(const Block& block) const {
  switch (block.kind) {
    case Kind::Thinking:
      return {{"type", "thinking"},
              {"thinking", block.text},
              {"signature", is_open_ ? std::string() : options_.id}};
    case Kind::Text:
      return {{"type", "text"}, {"text", block.text}};
    case Kind::ToolUse:
      return {{"type", "tool_use"},
              {"id", block.id},
              {"name", block.name},
              {"input", input_of(block.text)}};
  }
  return nullptr;
}

std::string MessagesResponseWriter::open(Block block) {
  std::string events = close();
  blocks_.push_back(std::move(block));
  is_open_ = true;
  return events + event({{"type", "content_block_start"},
                         {"index", blocks_.size() - 1},
                         {"content_block", block_json(blocks_.back())}});
}

std::string MessagesResponseWriter::close() {
  if (!is_open_) return {};
  std::string events;
  if (blocks_.back().kind == Kind::Thinking)
    events = extend({{"type", "signature_delta"}, {"signature", options_.id}}, {});
  is_open_ = false;
  return events + event({{"type", "content_block_stop"}, {"index", blocks_.size() - 1}});
}

// Adds `text` to the open block.
std::string MessagesResponseWriter::extend(const OrderedJson& delta, const std::string& text) {
  if (!options_.is_stream) {
    blocks_.back().text += text;
    num_bytes_ += text.size();
  }
  return event({{"type", "content_block_delta"}, {"index", blocks_.size() - 1}, {"delta", delta}});
}

std::string MessagesResponseWriter::add_text(Kind kind, const std::string& text) {
  if (text.empty()) return {};
  std::string events;
  if (!is_open_ || blocks_.back().kind != kind) events = open({.kind = kind});
  if (kind == Kind::Text) return events + extend({{"type", "text_delta"}, {"text", text}}, text);
  if (!options_.shows_thinking) return events;
  return events + extend({{"type", "thinking_delta"}, {"thinking", text}}, text);
}

// The piece that starts a call has its id.
std::string MessagesResponseWriter::add_call(const ToolCall& piece) {
  std::string events;
  if (!piece.id.empty()) events = open({.kind = Kind::ToolUse, .id = piece.id, .name = piece.name});
  if (piece.arguments.empty()) return events;
  return events +
         extend({{"type", "input_json_delta"}, {"partial_json", piece.arguments}}, piece.arguments);
}

std::string MessagesResponseWriter::add(const OutputDelta& delta) {
  std::string events = add_text(Kind::Thinking, delta.reasoning);
  events += add_text(Kind::Text, delta.content);
  for (const ToolCall& piece : delta.calls)
    events += add_call(piece);
  return events;
}

void MessagesResponseWriter::set_stop(const api::Finish& finish) {
  if (finish.reason == api::FinishReason::Length) {
    stop_reason_ = "max_tokens";
  } else if (finish.stop_text) {
    stop_reason_ = "stop_sequence";
    stop_sequence_ = *finish.stop_text;
  } else {
    stop_reason_ = parser_.has_calls() ? "tool_use" : "end_turn";
  }
}

std::string MessagesResponseWriter::append(std::size_t /*prompt*/, const api::Update& update) {
  std::string events = add(parser_.feed(update.text));
  if (!update.finish) return events;
  events += add(parser_.finish());
  events += close();
  set_stop(*update.finish);
  return events;
}

std::string MessagesResponseWriter::finish(const Usage& usage) {
  const OrderedJson counts = usage_json(usage.num_prompt, usage.num_cached, usage.num_output);
  if (options_.is_stream) {
    const OrderedJson delta = {{"stop_reason", stop_reason_}, {"stop_sequence", stop_sequence_}};
    return event({{"type", "message_delta"}, {"delta", delta}, {"usage", counts}}) +
           event({{"type", "message_stop"}});
  }
  OrderedJson content = OrderedJson::array();
  for (const Block& block : blocks_)
    content.push_back(block_json(block));
  return ordered_text(message(std::move(content), counts));
}

std::string MessagesResponseWriter::error(const std::string& message) {
  return event_text("error", error_body({500, message}, kPath));
}

}  // namespace graft::server::anthropic
