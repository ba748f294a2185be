// /v1/responses without sockets: accepted and rejected requests, and their conversations.

#include "graft/server/openai/responses/request.h"

#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "graft/base/text/str.h"
#include "graft/server/api_error.h"
#include "graft/server/fields.h"
#include "graft/server/openai/responses/items.h"
#include "graft/server/openai/responses/turn.h"

namespace graft::server::openai::responses {
namespace {

ResponsesRequest read_response(const std::string& more) {
  return read_responses_request(parse_body(R"({"model":"m","input":"Hi")" + more + "}"));
}

OrderedJson messages_of(const std::string& input, const std::string& instructions = {}) {
  const OrderedJson body = parse_body(R"({"input":)" + input + "}");
  return to_messages(read_responses_request(body).items, instructions);
}

// What Codex sends, and the other documented fields.
TEST(ResponsesRequest, AcceptsWhatClientsSend) {
  const ResponsesRequest request = read_response(R"(,
    "instructions":"You are a coding agent.","tools":[
      {"type":"function","name":"shell","description":"d","strict":false,
       "parameters":{"type":"object"}},{"type":"web_search","external_web_access":false}],
    "tool_choice":"auto","parallel_tool_calls":false,"reasoning":{"effort":"high","summary":"auto"},
    "store":false,"stream":true,"include":["reasoning.encrypted_content"],"prompt_cache_key":"k",
    "text":{"verbosity":"low","format":{"type":"text"}},"max_output_tokens":9,"temperature":0.5,
    "top_p":0.9,"truncation":"auto","metadata":{"a":"b"},"service_tier":"auto","user":"u",
    "safety_identifier":"s","background":false,"conversation":null,"prompt":null,
    "context_management":[],"max_tool_calls":3,"stream_options":{"include_obfuscation":false},
    "previous_response_id":null,"client_metadata":{"a":1},"unknown_field":null)");
  EXPECT_TRUE(request.is_stream && request.parse_tool_calls && request.single_call);
  EXPECT_TRUE(request.wants_summary && request.wants_encrypted && request.truncates);
  EXPECT_FALSE(request.is_stored || request.wants_logprobs);
  EXPECT_EQ(request.sampling.params.max_tokens, 9);
  EXPECT_EQ(request.instructions, "You are a coding agent.");
  const api::Conversation& chat = request.conversation;
  EXPECT_EQ(chat.thinking, api::Thinking::On);
  EXPECT_EQ(chat.extra["reasoning_effort"], "high");
  EXPECT_EQ(chat.extra["verbosity"], "low");
  ASSERT_EQ(chat.tools.size(), 1U) << "the web search is left out";
  EXPECT_EQ(chat.tools[0]["function"]["name"], "shell");
  EXPECT_EQ(request.echo["tools"].size(), 2U);
  EXPECT_EQ(request.echo["metadata"]["a"], "b");
  EXPECT_EQ(request.echo["store"], false);
}

TEST(ResponsesRequest, EchoesDefaults) {
  const ResponsesRequest request = read_response("");
  EXPECT_TRUE(request.is_stored);
  EXPECT_EQ(request.echo["tool_choice"], "auto");
  EXPECT_EQ(request.echo["truncation"], "disabled");
  EXPECT_EQ(request.echo["parallel_tool_calls"], true);
  EXPECT_EQ(request.echo["text"]["format"]["type"], "text");
}

TEST(ResponsesRequest, ReadsLogprobs) {
  EXPECT_EQ(read_response(R"(,"top_logprobs":3)").sampling.params.logprobs, 3);
  EXPECT_EQ(
      read_response(R"(,"include":["message.output_text.logprobs"])").sampling.params.logprobs, 0);
  EXPECT_FALSE(read_response("").sampling.params.logprobs);
}

TEST(ResponsesRequest, ReadsStructuredOutput) {
  const Sampling sampling =
      read_response(R"(,"text":{"format":{"type":"json_schema","name":"n","strict":true,
                                          "schema":{"type":"array"}}})")
          .sampling;
  ASSERT_TRUE(sampling.params.structured_output);
  EXPECT_EQ(sampling.params.structured_output->text, R"({"type":"array"})");
  EXPECT_EQ(sampling.structured_field, "text.format");
}

struct RejectedResponse {
  std::string more;
  std::string param;
};

const RejectedResponse kRejectedResponses[] = {
    {R"(,"text":{"format":{"type":"xml"}})", "text.format"},
    {R"(,"text":{"format":{"type":"json_object"}},"guided_regex":"a")", "text.format"},
    {R"(,"text":{"verbosity":"loud"})", "text.verbosity"},
    {R"(,"tool_choice":"required")", "tool_choice"},
    {R"(,"tool_choice":{"type":"function","name":"f"})", "tool_choice"},
    {R"(,"tool_choice":{"type":"function"})", "tool_choice.name"},
    {R"(,"tool_choice":{"type":"web_search_preview"})", "tool_choice.type"},
    {R"(,"tools":[{"type":"local_shell"}])", "tools[0].type"},
    {R"(,"tools":[{"type":"custom","name":"apply_patch"}])", "tools[0].type"},
    {R"(,"tools":[{"type":"function"}])", "tools[0].name"},
    {R"(,"tools":[{"type":"namespace","tools":[]}])", "tools[0].name"},
    {R"(,"tools":[{"type":"namespace","name":"n"}])", "tools[0].tools"},
    {R"(,"tools":[{"type":"namespace","name":"n","tools":[{"type":"custom","name":"x"}]}])",
     "tools[0].tools[0].type"},
    {R"(,"prompt_logprobs":1)", "prompt_logprobs"},
    {R"(,"tools":[{"type":"function","name":"f","parameters":[]}])", "tools[0].parameters"},
    {R"(,"background":true)", "background"},
    {R"(,"conversation":"c")", "conversation"},
    {R"(,"prompt":{"id":"p"})", "prompt"},
    {R"(,"context_management":[{"type":"compaction"}])", "context_management"},
    {R"(,"n":2)", "n"},
    {R"(,"max_tokens":5)", "max_tokens"},
    {R"(,"unknown_field":1)", "unknown_field"},
    {R"(,"reasoning":{"summary":"long"})", "reasoning.summary"},
    {R"(,"truncation":"middle")", "truncation"},
    {R"(,"top_logprobs":21)", "top_logprobs"},
    {R"(,"max_output_tokens":0)", "max_output_tokens"},
    {R"(,"metadata":3)", "metadata"},
    {R"(,"input":3)", "input"},
    {R"(,"input":[3])", "input[0]"},
    {R"(,"input":[{"role":"tool","content":"x"}])", "input[0].role"},
    {R"(,"input":[{"role":"user"}])", "input[0].content"},
    {R"(,"input":[{"role":"user","content":[{"type":"input_image"}]}])",
     "input[0].content[0].image_url"},
    {R"(,"input":[{"role":"user","content":[{"type":"input_image","file_id":"f"}]}])",
     "input[0].content[0].file_id"},
    {R"(,"input":[{"role":"system","content":[{"type":"input_image","image_url":"u"}]}])",
     "input[0].content[0].type"},
    {R"(,"input":[{"role":"user","content":[{"type":"input_text"}]}])", "input[0].content[0].text"},
    {R"(,"input":[{"type":"function_call","name":"f","arguments":"{}"}])", "input[0].call_id"},
    {R"(,"input":[{"type":"function_call_output","call_id":"c"}])", "input[0].output"},
    {R"(,"input":[{"type":"reasoning","summary":[{"type":"summary_text"}]}])",
     "input[0].summary[0].text"},
    {R"(,"input":[{"type":"item_reference"}])", "input[0].id"},
    {R"(,"input":[{"type":"web_search_call","id":"w"}])", "input[0].type"},
};

TEST(ResponsesRequest, RejectionsNameTheField) {
  for (const RejectedResponse& rejected : kRejectedResponses) {
    const bool has_input = rejected.more.find("\"input\"") != std::string::npos;
    const std::string body =
        str(R"({"model":"m")", has_input ? "" : R"(,"input":"Hi")", rejected.more, "}");
    try {
      read_responses_request(parse_body(body));
      ADD_FAILURE() << rejected.more << " was accepted";
    } catch (const ApiError& error) {
      EXPECT_EQ(error.status, 400);
      EXPECT_EQ(error.param, rejected.param) << error.what();
    }
  }
  EXPECT_THROW(read_responses_request(parse_body(R"({"model":"m"})")), ApiError);
}

TEST(ResponseItems, BecomeMessagesOfTemplates) {
  const OrderedJson messages = messages_of(R"([
    {"role":"developer","content":"Be kind."},
    {"role":"user","content":[{"type":"input_text","text":"a"},{"type":"input_text","text":"b"}]},
    {"type":"reasoning","id":"rs_1","summary":[],"content":[{"type":"reasoning_text","text":"hm"}]},
    {"type":"message","id":"msg_1","role":"assistant","status":"completed",
     "content":[{"type":"output_text","text":"I look.","annotations":[]}]},
    {"type":"function_call","call_id":"c1","name":"f","arguments":"{\"x\":1}"},
    {"type":"function_call","call_id":"c2","name":"g","arguments":"{\"x\":"},
    {"type":"function_call_output","call_id":"c1","output":"r"},
    {"type":"function_call_output","call_id":"c2","output":[{"type":"input_text","text":"s"}]},
    {"type":"reasoning","id":"rs_2","summary":[],"encrypted_content":"graft:so"},
    {"type":"function_call","call_id":"c3","name":"f","arguments":""}])",
                                           "You are a coding agent.");
  EXPECT_EQ(messages, OrderedJson::parse(R"([
    {"role":"system","content":"You are a coding agent.\n\nBe kind."},
    {"role":"user","content":"a\nb"},
    {"role":"assistant","content":"I look.","reasoning_content":"hm","tool_calls":[
      {"id":"c1","type":"function","function":{"name":"f","arguments":{"x":1}}},
      {"id":"c2","type":"function","function":{"name":"g","arguments":{"unparsed":"{\"x\":"}}}]},
    {"role":"tool","tool_call_id":"c1","content":"r"},
    {"role":"tool","tool_call_id":"c2","content":"s"},
    {"role":"assistant","content":"","reasoning_content":"so","tool_calls":[
      {"id":"c3","type":"function","function":{"name":"f","arguments":{}}}]}])"));
}

// As Codex offers its tools for agents.
TEST(ResponsesRequest, ReadsFunctionsOfNamespaces) {
  const ResponsesRequest request = read_response(R"(,"tools":[{"type":"function","name":"wait"},
      {"type":"namespace","name":"agents","description":"d","tools":[
        {"type":"function","name":"wait","parameters":{"type":"object"}}]}])");
  const OrderedJson& tools = request.conversation.tools;
  ASSERT_EQ(tools.size(), 2U);
  EXPECT_EQ(tools[0]["function"]["name"], "wait");
  EXPECT_EQ(tools[1]["function"]["name"], "agents__wait");
  ASSERT_EQ(request.namespaces.size(), 1U);
  EXPECT_EQ(request.namespaces.at("agents__wait").name_space, "agents");
  const OrderedJson messages = messages_of(
      R"([{"type":"function_call","call_id":"c","name":"wait","namespace":"agents",
           "arguments":"{}"}])");
  EXPECT_EQ(messages[0]["tool_calls"][0]["function"]["name"], "agents__wait");
}

TEST(ResponseItems, GetTypesAndIds) {
  const OrderedJson items =
      read_responses_request(
          parse_body(R"({"input":[{"role":"user","content":"a","id":"mine"},{"id":"ref"},
                                  {"role":"user","content":"b"}]})"))
          .items;
  EXPECT_EQ(items[0]["type"], "message");
  EXPECT_EQ(items[0]["id"], "mine");
  EXPECT_EQ(items[1]["type"], "item_reference");
  EXPECT_TRUE(items[2]["id"].get<std::string>().starts_with("msg_"));
  EXPECT_EQ(read_response("").items[0]["content"][0]["text"], "Hi");
}

TEST(Turn, ContinuesAPreviousResponseAndResolvesReferences) {
  ResponseStore store;
  const OrderedJson first = parse_body(R"({"input":"My name is Ada.","instructions":"Be kind."})");
  const Turn turn = read_turn(first, store, 7);
  store.add(7, to_stored(turn, OrderedJson::parse(R"({"id":"resp_1","output":[
    {"id":"msg_out","type":"message","role":"assistant",
     "content":[{"type":"output_text","text":"Hello Ada."}]}]})")));
  const Turn next =
      read_turn(parse_body(R"({"input":"Who am I?","previous_response_id":"resp_1"})"), store, 7);
  EXPECT_EQ(next.num_previous, 2U);
  EXPECT_EQ(next.items.size(), 3U);
  EXPECT_EQ(next.request.conversation.messages, OrderedJson::parse(R"([
    {"role":"user","content":"My name is Ada."},{"role":"assistant","content":"Hello Ada."},
    {"role":"user","content":"Who am I?"}])"))
      << "instructions are those of one request";
  const Turn referring = read_turn(parse_body(R"({"input":[{"type":"item_reference","id":"msg_out"},
                              {"role":"user","content":"x"}]})"),
                                   store, 7);
  EXPECT_EQ(referring.request.conversation.messages[0]["content"], "Hello Ada.");
  for (const char* body : {R"({"input":"x","previous_response_id":"resp_2"})",
                           R"({"input":[{"type":"item_reference","id":"none"}]})"})
    EXPECT_THROW(read_turn(parse_body(body), store, 7), ApiError) << body;
  EXPECT_THROW(read_turn(parse_body(R"({"input":"x","previous_response_id":"resp_1"})"), store, 8),
               ApiError)
      << "another client";
}

}  // namespace
}  // namespace graft::server::openai::responses
