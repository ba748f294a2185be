#include "graft/server/anthropic/messages_response.h"

#include <cstddef>
#include <string>

#include <gtest/gtest.h>

#include "graft/base/text/json.h"

namespace graft::server::anthropic {
namespace {

api::Update text_update(const std::string& text) {
  return {.id = {.request = 1}, .tokens = {1}, .text = text};
}

api::Update end_update(const std::string& text, const api::Finish& finish) {
  api::Update made = text_update(text);
  made.finish = finish;
  return made;
}

constexpr const char* kCall = R"(<tool_call>{"name":"f","arguments":{"x":1}}</tool_call>)";

MessagesResponseOptions options(bool is_stream) {
  return {.id = "msg_1",
          .model = "m",
          .format = {.parse_tool_calls = true},
          .num_prompt = 5,
          .is_stream = is_stream};
}

// The ids of calls are random.
void replace_id(std::string& stream) {
  const std::size_t at = stream.find("call_");
  ASSERT_NE(at, std::string::npos) << stream;
  stream.replace(at, stream.find('"', at) - at, "ID");
}

// The whole stream, byte by byte.
TEST(MessagesResponseWriter, WritesEventsInOrder) {
  MessagesResponseWriter writer(options(true));
  std::string stream = writer.begin();
  stream += writer.append(0, text_update("<think>hm"));
  stream += writer.append(0, text_update("</think>\n"));
  stream += writer.append(0, text_update("Let me"));
  stream += writer.append(0, text_update(" look."));
  stream += writer.append(0, end_update(kCall, {.reason = api::FinishReason::Stop}));
  stream += writer.finish({.num_prompt = 5, .num_cached = 4, .num_output = 6});
  replace_id(stream);
  EXPECT_EQ(stream,
            R"(event: message_start
data: {"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":5,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":0,"service_tier":"standard"}}}

event: ping
data: {"type":"ping"}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"hm"}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"msg_1"}}

event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: content_block_start
data: {"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"Let me"}}

event: content_block_delta
data: {"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":" look."}}

event: content_block_stop
data: {"type":"content_block_stop","index":1}

event: content_block_start
data: {"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"ID","name":"f","input":{}}}

event: content_block_delta
data: {"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{\"x\":1}"}}

event: content_block_stop
data: {"type":"content_block_stop","index":2}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"input_tokens":1,"cache_creation_input_tokens":0,"cache_read_input_tokens":4,"output_tokens":6,"service_tier":"standard"}}

event: message_stop
data: {"type":"message_stop"}

)");
}

TEST(MessagesResponseWriter, WritesOneObject) {
  MessagesResponseWriter writer(options(false));
  EXPECT_EQ(writer.append(0, text_update("<think>hm</think>A")), "");
  EXPECT_EQ(writer.num_bytes(), 3U);
  writer.append(0, end_update(kCall, {.reason = api::FinishReason::Stop}));
  const Json json = Json::parse(writer.finish({.num_prompt = 5, .num_output = 3}));
  EXPECT_EQ(json["type"], "message");
  EXPECT_EQ(json["content"][0],
            Json({{"type", "thinking"}, {"thinking", "hm"}, {"signature", "msg_1"}}));
  EXPECT_EQ(json["content"][1], Json({{"type", "text"}, {"text", "A"}}));
  EXPECT_EQ(json["content"][2]["name"], "f");
  EXPECT_EQ(json["content"][2]["input"], Json({{"x", 1}}));
  EXPECT_EQ(json["stop_reason"], "tool_use");
  EXPECT_EQ(json["usage"]["input_tokens"], 5);
  EXPECT_EQ(json["usage"]["output_tokens"], 3);
}

Json stopped(const api::Finish& finish, const std::string& text = "A") {
  MessagesResponseWriter writer(options(false));
  writer.append(0, end_update(text, finish));
  return Json::parse(writer.finish({}));
}

TEST(MessagesResponseWriter, NamesTheStopReason) {
  using api::FinishReason;
  EXPECT_EQ(stopped({.reason = FinishReason::Stop})["stop_reason"], "end_turn");
  EXPECT_EQ(stopped({.reason = FinishReason::Length})["stop_reason"], "max_tokens");
  EXPECT_EQ(stopped({.reason = FinishReason::Length}, kCall)["stop_reason"], "max_tokens");
  const Json json = stopped({.reason = FinishReason::Stop, .stop_text = "END"});
  EXPECT_EQ(json["stop_reason"], "stop_sequence");
  EXPECT_EQ(json["stop_sequence"], "END");
}

TEST(MessagesResponseWriter, MalformedCallsAreText) {
  const Json json = stopped({.reason = api::FinishReason::Stop},
                            R"(<tool_call>{"name":"f","arguments":{"x":]}}</tool_call>)");
  EXPECT_EQ(json["content"], Json({{{"type", "text"},
                                    {"text",
                                     "\n"
                                     R"({"name":"f","arguments":{"x":]}})"}}}));
  EXPECT_EQ(json["stop_reason"], "end_turn");
}

TEST(MessagesResponseWriter, HidesThinking) {
  MessagesResponseOptions hidden = options(false);
  hidden.shows_thinking = false;
  MessagesResponseWriter writer(hidden);
  writer.append(0, end_update("<think>hm</think>A", {.reason = api::FinishReason::Stop}));
  const Json json = Json::parse(writer.finish({}));
  EXPECT_EQ(json["content"][0]["thinking"], "");
  EXPECT_EQ(json["content"][0]["signature"], "msg_1");
  EXPECT_EQ(json["content"][1]["text"], "A");
}

TEST(MessagesResponseWriter, ReportsErrorsAsAnEvent) {
  MessagesResponseWriter writer(options(true));
  EXPECT_EQ(writer.error("it broke"),
            "event: error\n"
            R"(data: {"type":"error","error":{"type":"api_error","message":"it broke"}})"
            "\n\n");
  EXPECT_EQ(event_head().keep_alive, "event: ping\ndata: {\"type\":\"ping\"}\n\n");
}

}  // namespace
}  // namespace graft::server::anthropic
