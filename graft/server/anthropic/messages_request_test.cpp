// /v1/messages without sockets: accepted and rejected requests, and their conversations.

#include "graft/server/anthropic/messages_request.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "graft/base/text/str.h"
#include "graft/server/api_error.h"
#include "graft/server/fields.h"

namespace graft::server::anthropic {
namespace {

MessagesRequest read(const std::string& more) {
  return read_messages_request(parse_body(
      R"({"model":"m","max_tokens":9,"messages":[{"role":"user","content":"Hi"}])" + more + "}"));
}

OrderedJson messages_of(const std::string& messages, const std::string& more = {}) {
  return read_messages_request(parse_body(R"({"max_tokens":1,"messages":)" + messages + more + "}"))
      .conversation.messages;
}

// What Claude Code sends, and the other fields of Anthropic's client library.
TEST(MessagesRequest, RefusesUnknownFields) {
  const char* known =
      R"({"max_tokens":1,"messages":[{"role":"user","content":"a"}],"metadata":{},"service_tier":"auto")";
  EXPECT_NO_THROW(read_messages_request(parse_body(std::string(known) + R"(,"other":null})")));
  try {
    read_messages_request(parse_body(std::string(known) + R"(,"max_tokns":1})"));
    ADD_FAILURE() << "accepted";
  } catch (const ApiError& error) {
    EXPECT_EQ(error.param, "max_tokns");
  }
}

TEST(MessagesRequest, AcceptsWhatClientsSend) {
  const MessagesRequest request = read(R"(,
    "system":[{"type":"text","text":"x-anthropic-billing-header: cc_version=2; cch=1;"},
              {"type":"text","text":"Be kind.","cache_control":{"type":"ephemeral","ttl":"1h"}},
              {"type":"text","text":"Be brief."}],
    "tools":[{"name":"f","description":"d","input_schema":{"type":"object"},
              "cache_control":{"type":"ephemeral"},"eager_input_streaming":true},
             {"type":"custom","name":"g","input_schema":{},"strict":true,
              "input_examples":[{"x":1}]}],
    "tool_choice":{"type":"auto","disable_parallel_tool_use":true},
    "metadata":{"user_id":"u"},"stop_sequences":["a","b"],"temperature":1,"top_p":0.9,"top_k":5,
    "thinking":{"type":"enabled","budget_tokens":1024},"stream":true,"service_tier":"auto",
    "output_config":{"effort":"high"},"cache_control":{"type":"ephemeral"},"mcp_servers":[],
    "context_management":{"edits":[{"type":"clear_thinking_20251015","keep":"all"}]},
    "container":null,"inference_geo":"us")");
  EXPECT_EQ(request.model, "m");
  EXPECT_TRUE(request.is_stream && request.parse_tool_calls && request.single_call);
  EXPECT_TRUE(request.shows_thinking);
  const api::SamplingParams& params = request.sampling.params;
  EXPECT_EQ(params.max_tokens, 9);
  EXPECT_EQ(params.stop, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(params.top_k, 5);
  EXPECT_FALSE(request.sampling.default_temperature || request.sampling.default_top_p);
  const api::Conversation& chat = request.conversation;
  EXPECT_EQ(chat.messages[0],
            OrderedJson({{"role", "system"}, {"content", "Be kind.\nBe brief."}}));
  EXPECT_EQ(chat.thinking, api::Thinking::ModelDecides);
  EXPECT_EQ(chat.extra["enable_thinking"], true);
  EXPECT_EQ(chat.extra["thinking_budget"], 1024);
  EXPECT_EQ(chat.extra["reasoning_effort"], "high");
  EXPECT_EQ(chat.tools[0]["function"]["parameters"], OrderedJson({{"type", "object"}}));
  EXPECT_EQ(chat.tools[1]["function"]["description"], R"(Examples of the input: [{"x":1}])");
  EXPECT_EQ(chat.tools[1]["function"]["strict"], true);
  EXPECT_FALSE(chat.continue_final_message);
}

TEST(MessagesRequest, ReadsStructuredOutput) {
  const std::string format = R"({"type":"json_schema","schema":{"type":"array"}})";
  for (const std::string& more :
       {R"(,"output_config":{"format":)" + format + "}", R"(,"output_format":)" + format}) {
    const api::SamplingParams params = read(more).sampling.params;
    ASSERT_TRUE(params.structured_output) << more;
    EXPECT_EQ(params.structured_output->text, R"({"type":"array"})");
  }
}

struct RejectedMessages {
  std::string more;
  std::string param;
};

const RejectedMessages kRejectedMessages[] = {
    {R"(,"tools":[{"type":"web_search_20250305","name":"web_search"}])", "tools[0].type"},
    {R"(,"tools":[{"name":"f"}])", "tools[0].input_schema"},
    {R"(,"tools":[{"name":"f","input_schema":[]}])", "tools[0].input_schema"},
    {R"(,"tools":[{"input_schema":{}}])", "tools[0].name"},
    {R"(,"tools":[3])", "tools[0]"},
    {R"(,"tools":{})", "tools"},
    {R"(,"tools":[{"name":"f","input_schema":{},"defer_loading":true}])", "tools[0].defer_loading"},
    {R"(,"tools":[{"name":"f","input_schema":{},"allowed_callers":["code_execution_20250825"]}])",
     "tools[0].allowed_callers"},
    {R"(,"tool_choice":{"type":"any"})", "tool_choice"},
    {R"(,"tool_choice":{"type":"tool"})", "tool_choice.name"},
    {R"(,"tool_choice":{"type":"tool","name":"f"})", "tool_choice"},
    {R"(,"tool_choice":{"type":"one"})", "tool_choice.type"},
    {R"(,"tool_choice":"auto")", "tool_choice"},
    {R"(,"thinking":{"type":"enabled"})", "thinking.budget_tokens"},
    {R"(,"thinking":{"type":"between_tools"})", "thinking.type"},
    {R"(,"thinking":{"type":"adaptive","display":"x"})", "thinking.display"},
    {R"(,"output_config":{"format":{"type":"xml"}})", "output_config.format"},
    {R"(,"output_format":{"type":"json_object"},"output_config":{"format":{"type":"json_object"}})",
     "output_config.format"},
    {R"(,"context_management":{"edits":[{"type":"clear_tool_uses_20250919"}]})",
     "context_management.edits[0].type"},
    {R"(,"container":"c")", "container"},
    {R"(,"mcp_servers":[{"url":"u"}])", "mcp_servers"},
    {R"(,"max_tokens":0)", "max_tokens"},
    {R"(,"temperature":3)", "temperature"},
    {R"(,"top_k":-1)", "top_k"},
    {R"(,"stop_sequences":[1])", "stop_sequences"},
    {R"(,"system":3)", "system"},
    {R"(,"system":[{"type":"image"}])", "system[0].type"},
    {R"(,"messages":"x")", "messages"},
    {R"(,"messages":[{"content":"x"}])", "messages[0].role"},
    {R"(,"messages":[{"role":"tool","content":"x"}])", "messages[0].role"},
    {R"(,"messages":[{"role":"user"}])", "messages[0].content"},
    {R"(,"messages":[{"role":"user","content":[{"type":"image","source":{}}]}])",
     "messages[0].content[0].source.type"},
    {R"(,"messages":[{"role":"user","content":[{"type":"text"}]}])", "messages[0].content[0].text"},
    {R"(,"messages":[{"role":"user","content":[{"type":"tool_result","content":"x"}]}])",
     "messages[0].content[0].tool_use_id"},
    {R"(,"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"t",
         "content":[{"type":"image"}]}]}])",
     "messages[0].content[0].content[0].type"},
    {R"(,"messages":[{"role":"user","content":[{"type":"document",
         "source":{"type":"base64","data":""}}]}])",
     "messages[0].content[0].source.type"},
    {R"(,"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"f",
         "input":"x"}]}])",
     "messages[0].content[0].input"},
    {R"(,"messages":[{"role":"assistant","content":[{"type":"server_tool_use"}]}])",
     "messages[0].content[0].type"},
};

TEST(MessagesRequest, RejectionsNameTheField) {
  for (const RejectedMessages& rejected : kRejectedMessages) {
    // A field given twice is an error of its own: those of the request are replaced.
    const bool has_messages = rejected.more.find("\"messages\"") != std::string::npos;
    const bool has_limit = rejected.more.find("\"max_tokens\"") != std::string::npos;
    const std::string body = str(
        R"({"model":"m")", has_limit ? "" : R"(,"max_tokens":9)",
        has_messages ? "" : R"(,"messages":[{"role":"user","content":"Hi"}])", rejected.more, "}");
    try {
      read_messages_request(parse_body(body));
      ADD_FAILURE() << rejected.more << " was accepted";
    } catch (const ApiError& error) {
      EXPECT_EQ(error.status, 400);
      EXPECT_EQ(error.param, rejected.param) << error.what();
    }
  }
  EXPECT_THROW(read_messages_request(parse_body(R"({"max_tokens":1})")), ApiError);
  EXPECT_THROW(read_messages_request(parse_body(R"({"messages":[]})")), ApiError) << "max_tokens";
}

TEST(MessagesRequest, ConvertsBlocksToMessagesOfTemplates) {
  const OrderedJson messages = messages_of(R"([
    {"role":"user","content":[{"type":"text","text":"a"},
      {"type":"document","title":"T","source":{"type":"text","media_type":"text/plain","data":"D"}}]},
    {"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"s"},
      {"type":"redacted_thinking","data":"x"},{"type":"text","text":"I look."},
      {"type":"tool_use","id":"t1","name":"f","input":{"x":1}},
      {"type":"tool_use","id":"t2","name":"g","input":{}}]},
    {"role":"user","content":[
      {"type":"tool_result","tool_use_id":"t1","content":[{"type":"text","text":"r"},
                                                         {"type":"text","text":"s"}]},
      {"type":"tool_result","tool_use_id":"t2","is_error":true,"content":"bad"},
      {"type":"tool_result","tool_use_id":"t3","is_error":true},
      {"type":"text","text":"go on"}]}])");
  EXPECT_EQ(messages, OrderedJson::parse(R"([
    {"role":"user","content":"a\nT\nD"},
    {"role":"assistant","content":"I look.","reasoning_content":"hm","tool_calls":[
      {"id":"t1","type":"function","function":{"name":"f","arguments":{"x":1}}},
      {"id":"t2","type":"function","function":{"name":"g","arguments":{}}}]},
    {"role":"tool","tool_call_id":"t1","content":"r\ns"},
    {"role":"tool","tool_call_id":"t2","content":"Error: bad"},
    {"role":"tool","tool_call_id":"t3","content":"Error"},
    {"role":"user","content":"go on"}])"));
}

TEST(MessagesRequest, ContinuesALastMessageOfTheAssistant) {
  const auto is_continued = [](const std::string& content) {
    return read_messages_request(parse_body(
                                     R"({"max_tokens":1,"messages":[{"role":"user","content":"a"},
                                                  {"role":"assistant","content":)" +
                                     content + "}]}"))
        .conversation.continue_final_message;
  };
  EXPECT_TRUE(is_continued(R"("The sum is")"));
  EXPECT_TRUE(is_continued(R"([{"type":"text","text":"The sum is"}])"));
  EXPECT_FALSE(is_continued(R"([{"type":"tool_use","id":"t","name":"f","input":{}}])"));
}

TEST(MessagesRequest, ToolChoiceNoneDropsTheTools) {
  const MessagesRequest request =
      read(R"(,"tools":[{"name":"f","input_schema":{}}],"tool_choice":{"type":"none"})");
  EXPECT_FALSE(request.parse_tool_calls);
  EXPECT_TRUE(request.conversation.tools.is_null());
}

TEST(MessagesRequest, ReadsThinking) {
  using api::Thinking;
  EXPECT_EQ(read("").conversation.thinking, Thinking::ModelDecides);
  EXPECT_EQ(read(R"(,"thinking":{"type":"disabled"})").conversation.thinking, Thinking::Off);
  const MessagesRequest hidden = read(R"(,"thinking":{"type":"adaptive","display":"omitted"})");
  EXPECT_EQ(hidden.conversation.thinking, Thinking::ModelDecides);
  EXPECT_FALSE(hidden.shows_thinking);
}

TEST(MessagesRequest, CountingNeedsNoMaxTokens) {
  const MessagesRequest request = read_count_request(
      parse_body(R"({"model":"m","messages":[{"role":"user","content":"Hi"}]})"));
  EXPECT_EQ(request.conversation.messages.size(), 1U);
}

}  // namespace
}  // namespace graft::server::anthropic
