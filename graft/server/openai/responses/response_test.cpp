#include "graft/server/openai/responses/response.h"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "graft/base/text/json.h"

namespace graft::server::openai::responses {
namespace {

const Identity kResponse = {.id = "resp_ab", .created = 7, .model = "m"};
constexpr const char* kCall = R"(<tool_call>{"name":"f","arguments":{"x":1}}</tool_call>)";

api::Update piece(const std::string& text) {
  return {.id = {.request = 1}, .tokens = {1}, .text = text};
}

api::Update end_piece(const std::string& text, api::FinishReason reason) {
  api::Update made = piece(text);
  made.finish = api::Finish{.reason = reason};
  return made;
}

// The data of the events; checks that the names agree and that the numbers count up.
std::vector<Json> response_events(const std::string& stream) {
  std::vector<Json> found;
  std::string_view rest = stream;
  while (!rest.empty()) {
    const std::size_t line = rest.find("\ndata: ");
    const std::size_t end = rest.find("\n\n");
    EXPECT_TRUE(rest.starts_with("event: ") && line < end && end != std::string_view::npos) << rest;
    found.push_back(Json::parse(rest.substr(line + 7, end - line - 7)));
    EXPECT_EQ(found.back()["type"], rest.substr(7, line - 7));
    EXPECT_EQ(found.back()["sequence_number"], found.size() - 1);
    rest.remove_prefix(end + 2);
  }
  return found;
}

std::string types_of(const std::vector<Json>& events) {
  std::string text;
  for (const Json& event : events)
    text += event["type"].get<std::string>().substr(std::string_view("response.").size()) + "\n";
  return text;
}

TEST(ResponsesWriter, WritesEventsInOrder) {
  ResponsesWriter writer(
      kResponse,
      {.format = {.parse_tool_calls = true}, .echo = {{"store", true}}, .is_stream = true});
  std::string stream = writer.begin();
  stream += writer.append(0, piece("<think>hm"));
  stream += writer.append(0, piece("</think>\n"));
  stream += writer.append(0, piece("Let me"));
  stream += writer.append(0, piece(" look."));
  stream += writer.append(0, end_piece(kCall, api::FinishReason::Stop));
  stream += writer.finish({.num_prompt = 5, .num_cached = 4, .num_output = 6});
  const std::vector<Json> events = response_events(stream);
  EXPECT_EQ(types_of(events), R"(created
in_progress
output_item.added
content_part.added
reasoning_text.delta
reasoning_text.done
content_part.done
output_item.done
output_item.added
content_part.added
output_text.delta
output_text.delta
output_text.done
content_part.done
output_item.done
output_item.added
function_call_arguments.delta
function_call_arguments.done
output_item.done
completed
)");
  EXPECT_EQ(events[0]["response"]["status"], "in_progress");
  EXPECT_EQ(events[2], Json::parse(R"({"type":"response.output_item.added","sequence_number":2,
    "output_index":0,"item":{"id":"rs_ab_0","type":"reasoning","summary":[],"content":[],
    "status":"in_progress"}})"));
  EXPECT_EQ(events[10], Json::parse(R"({"type":"response.output_text.delta","sequence_number":10,
    "item_id":"msg_ab_1","output_index":1,"content_index":0,"delta":"Let me","logprobs":[]})"));
  EXPECT_EQ(events[14]["item"], Json::parse(R"({"id":"msg_ab_1","type":"message",
    "role":"assistant","status":"completed","content":[{"type":"output_text",
    "text":"Let me look.","annotations":[],"logprobs":[]}]})"));
  EXPECT_EQ(events[17]["arguments"], R"({"x":1})");
  EXPECT_EQ(events[17]["item_id"], "fc_ab_2");
  const Json& whole = events.back()["response"];
  EXPECT_EQ(whole["status"], "completed");
  EXPECT_EQ(whole["store"], true);
  EXPECT_EQ(whole["output"].size(), 3U);
  EXPECT_EQ(whole["output"][2]["name"], "f");
  EXPECT_EQ(whole["usage"], Json::parse(R"({"input_tokens":5,"output_tokens":6,"total_tokens":11,
    "input_tokens_details":{"cached_tokens":4},"output_tokens_details":{"reasoning_tokens":2}})"));
}

TEST(ResponsesWriter, ReturnsReasoningAsItsSummary) {
  ResponsesWriter writer(kResponse,
                         {.is_stream = true, .wants_summary = true, .wants_encrypted = true});
  std::string stream = writer.append(0, end_piece("<think>hm</think>A", api::FinishReason::Stop));
  stream += writer.finish({});
  const std::vector<Json> events = response_events(stream);
  EXPECT_EQ(types_of(events), R"(output_item.added
reasoning_summary_part.added
reasoning_summary_text.delta
reasoning_summary_text.done
reasoning_summary_part.done
output_item.done
output_item.added
content_part.added
output_text.delta
output_text.done
content_part.done
output_item.done
completed
)");
  EXPECT_EQ(events[5]["item"], Json::parse(R"({"id":"rs_ab_0","type":"reasoning","content":[],
    "summary":[{"type":"summary_text","text":"hm"}],"encrypted_content":"graft:hm",
    "status":"completed"})"));
}

TEST(ResponsesWriter, WritesOneObjectAndKeepsIt) {
  Json kept;
  ResponsesWriter writer(kResponse, {.on_finish = [&](const OrderedJson& response) {
                           kept = Json::parse(response.dump());
                         }});
  EXPECT_EQ(writer.append(0, piece("Hello")), "");
  EXPECT_EQ(writer.num_bytes(), 5U);
  writer.append(0, end_piece(" you", api::FinishReason::Length));
  const Json json = Json::parse(writer.finish({.num_prompt = 5, .num_output = 3}));
  EXPECT_EQ(json["object"], "response");
  EXPECT_EQ(json["status"], "incomplete");
  EXPECT_EQ(json["incomplete_details"]["reason"], "max_output_tokens");
  EXPECT_EQ(json["output"][0]["status"], "incomplete");
  EXPECT_EQ(json["output"][0]["content"][0]["text"], "Hello you");
  EXPECT_EQ(kept, json);
}

TEST(ResponsesWriter, CallsNameTheirNamespace) {
  ResponsesWriter writer(kResponse, {.format = {.parse_tool_calls = true},
                                     .namespaces = {{"f", {.name_space = "n", .name = "g"}}},
                                     .is_stream = true});
  std::string stream = writer.append(0, end_piece(kCall, api::FinishReason::Stop));
  stream += writer.finish({});
  const std::vector<Json> events = response_events(stream);
  for (const Json& event : events) {
    if (!event.contains("item")) continue;
    EXPECT_EQ(event["item"]["namespace"], "n");
    EXPECT_EQ(event["item"]["name"], "g");
  }
  EXPECT_EQ(events.back()["response"]["output"][0]["namespace"], "n");
}

TEST(ResponsesWriter, FailsWithTheResponse) {
  ResponsesWriter writer(kResponse, {.is_stream = true});
  std::string stream = writer.begin();
  stream += writer.append(0, piece("Hello"));
  stream += writer.error("/models/x.gguf: it broke");
  const std::vector<Json> events = response_events(stream);
  EXPECT_EQ(events.back()["type"], "response.failed");
  EXPECT_EQ(events.back()["response"]["error"]["message"], "x.gguf: it broke");
  EXPECT_EQ(events.back()["response"]["status"], "failed");
}

}  // namespace
}  // namespace graft::server::openai::responses
