// /v1/chat/completions without sockets: accepted and rejected requests, and the responses.

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "graft/server/api_error.h"
#include "graft/server/fields.h"
#include "graft/server/openai/chat_request.h"
#include "graft/server/openai/chat_response.h"

namespace graft::server::openai {
namespace {

ChatRequest read_chat(const std::string& more) {
  return read_chat_request(
      parse_body(R"({"model":"m","messages":[{"role":"user","content":"Hi"}])" + more + "}"));
}

// Every field that OpenAI documents, with values that need no unsupported feature.
TEST(ChatRequest, AcceptsEveryDocumentedField) {
  const ChatRequest request = read_chat(R"(,
    "audio":null,"frequency_penalty":0.5,"function_call":null,"functions":[],"documents":[],"chat_template":"",
    "logit_bias":{"5":-100,"7":1.5},"logprobs":true,"top_logprobs":3,"max_completion_tokens":9,
    "max_tokens":5,"metadata":{"a":"b"},"modalities":["text"],"n":2,"parallel_tool_calls":true,
    "prediction":{"type":"content","content":"x"},"presence_penalty":-0.5,"prompt_cache_key":"k",
    "reasoning_effort":null,"response_format":{"type":"text"},"safety_identifier":"s","seed":-3,
    "service_tier":"auto","stop":["a","b"],"store":false,"stream":true,
    "stream_options":{"include_usage":true,"include_obfuscation":false},"temperature":0.5,
    "tool_choice":"auto","tools":[],"top_p":0.9,"user":"u","verbosity":"medium",
    "web_search_options":null,"unknown_field":null,
    "top_k":40,"min_p":0.1,"repetition_penalty":1.1,"ignore_eos":true,"min_tokens":1,
    "priority":4,"mirostat":0,"use_beam_search":false,"json_schema":{},"grammar":"",
    "guided_choice":[])");
  EXPECT_EQ(request.model, "m");
  EXPECT_TRUE(request.is_stream && request.include_usage && request.wants_logprobs);
  EXPECT_FALSE(request.parse_tool_calls);
  EXPECT_EQ(request.priority, 4);
  const api::SamplingParams& params = request.sampling.params;
  EXPECT_EQ(params.max_tokens, 9) << "max_completion_tokens takes precedence";
  EXPECT_EQ(params.n, 2);
  EXPECT_EQ(params.logprobs, 3);
  EXPECT_EQ(params.seed, static_cast<std::uint64_t>(-3));
  EXPECT_EQ(params.stop, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(params.logit_bias.size(), 2U);
  EXPECT_EQ(params.top_k, 40);
  EXPECT_DOUBLE_EQ(params.repetition_penalty, 1.1);
  EXPECT_TRUE(params.ignore_eos);
}

struct Rejected {
  std::string more;
  std::string param;
};

// Unsupported features that would change the output, and invalid values.
const Rejected kRejected[] = {
    {R"(,"response_format":{"type":"json_schema","json_schema":{}})",
     "response_format.json_schema.schema"},
    {R"(,"response_format":{"type":"xml"})", "response_format"},
    {R"(,"response_format":"json_object")", "response_format"},
    {R"(,"response_format":{"type":"json_object"},"guided_regex":"a")", "guided_regex"},
    {R"(,"structured_outputs":{"regex":"a","choice":["b"]})", "structured_outputs.choice"},
    {R"(,"structured_outputs":{"structural_tag":"x"})", "structured_outputs.structural_tag"},
    {R"(,"guided_choice":[7])", "guided_choice"},
    {R"(,"guided_regex":7)", "guided_regex"},
    {R"(,"guided_whitespace_pattern":" ")", "guided_whitespace_pattern"},
    {R"(,"tool_choice":{"type":"function","function":{"name":"f"}})", "tool_choice"},
    {R"(,"tool_choice":"required")", "tool_choice"},
    {R"(,"tool_choice":"sometimes")", "tool_choice"},
    {R"(,"tool_choice":{"type":"custom","name":"f"})", "tool_choice.type"},
    {R"(,"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[]}})",
     "tool_choice.allowed_tools.tools"},
    {R"(,"tool_choice":{"type":"allowed_tools","mode":"none","tools":[{"name":"f"}]})",
     "tool_choice.mode"},
    {R"(,"functions":[{"name":"f"}])", "functions"},
    {R"(,"function_call":"auto")", "function_call"},
    {R"(,"audio":{"voice":"x"})", "audio"},
    {R"(,"modalities":["text","audio"])", "modalities"},
    {R"(,"web_search_options":{})", "web_search_options"},
    {R"(,"verbosity":"loud")", "verbosity"},
    {R"(,"use_beam_search":true)", "use_beam_search"},
    {R"(,"mirostat":2)", "mirostat"},
    {R"(,"store":true)", "store"},
    {R"(,"unknown_field":false)", "unknown_field"},
    {R"(,"max_output_tokens":5)", "max_output_tokens"},
    {R"(,"reasoning":{"max_tokens":5})", "reasoning.max_tokens"},
    {R"(,"reasoning_format":"none")", "reasoning_format"},
    {R"(,"separate_reasoning":false)", "separate_reasoning"},
    {R"(,"thinking":{"type":"sometimes"})", "thinking.type"},
    {R"(,"thinking":{"budget_tokens":5})", "thinking.budget_tokens"},
    {R"(,"stream":true,"stream_options":{"continuous_usage_stats":true})",
     "stream_options.continuous_usage_stats"},
    {R"(,"continue_final_message":true,"add_generation_prompt":true)", "continue_final_message"},
    {R"(,"top_logprobs":3)", "top_logprobs"},
    {R"(,"logprobs":true,"top_logprobs":21)", "top_logprobs"},
    {R"(,"stream_options":{"include_usage":true})", "stream_options"},
    {R"(,"temperature":2.5)", "temperature"},
    {R"(,"temperature":"hot")", "temperature"},
    {R"(,"top_p":-1)", "top_p"},
    {R"(,"n":0)", "n"},
    {R"(,"n":129)", "n"},
    {R"(,"n":1.5)", "n"},
    {R"(,"max_tokens":0)", "max_tokens"},
    {R"(,"stop":[1])", "stop"},
    {R"(,"stop":{"a":1})", "stop"},
    {R"(,"seed":"x")", "seed"},
    {R"(,"stream":"yes")", "stream"},
    {R"(,"logit_bias":{"x":1})", "logit_bias"},
    {R"(,"logit_bias":{"1":101})", "logit_bias"},
    {R"(,"logit_bias":[1])", "logit_bias"},
    {R"(,"presence_penalty":3)", "presence_penalty"},
    {R"(,"bad_words":["a"," "])", "bad_words"},
    {R"(,"bad_words":[7])", "bad_words"},
    {R"(,"speculate":"mtp")", "speculate"},
    {R"(,"speculate":true)", "speculate"},
    {R"(,"prompt_logprobs":-1)", "prompt_logprobs"},
    {R"(,"prompt_logprobs":21)", "prompt_logprobs"},
    {R"(,"prompt_logprobs":1,"stream":true)", "prompt_logprobs"},
};

TEST(ChatRequest, RejectionsNameTheField) {
  for (const Rejected& rejected : kRejected) {
    try {
      read_chat(rejected.more);
      ADD_FAILURE() << rejected.more << " was accepted";
    } catch (const ApiError& error) {
      EXPECT_EQ(error.status, 400);
      EXPECT_EQ(error.param, rejected.param) << error.what();
    }
  }
  EXPECT_THROW(read_chat_request(parse_body("{}")), ApiError);
}

struct StructuredCase {
  std::string more;
  StructuredOutput::Kind kind;
  std::string text;
};

TEST(ChatRequest, ReadsStructuredOutputInAllSpellings) {
  using Kind = StructuredOutput::Kind;
  const std::vector<StructuredCase> cases = {
      {R"(,"response_format":{"type":"json_object"})", Kind::JsonSchema, R"({"type": "object"})"},
      {R"(,"response_format":{"type":"json_object","schema":{"a":1}})", Kind::JsonSchema,
       R"({"a":1})"},
      {R"(,"response_format":{"type":"json_schema","json_schema":{"name":"n","strict":true,
          "schema":{"z":1,"a":2}}})",
       Kind::JsonSchema, R"({"z":1,"a":2})"},
      {R"(,"structured_outputs":{"json":{"a":1},"regex":null})", Kind::JsonSchema, R"({"a":1})"},
      {R"(,"structured_outputs":{"choice":["a","b"]})", Kind::Choice, R"(["a","b"])"},
      {R"(,"structured_outputs":{"json_object":true})", Kind::JsonSchema, R"({"type": "object"})"},
      {R"(,"guided_json":"{\"a\": 1}")", Kind::JsonSchema, R"({"a": 1})"},
      {R"(,"guided_regex":"a+")", Kind::Regex, "a+"},
      {R"(,"guided_choice":["x"])", Kind::Choice, R"(["x"])"},
      {R"(,"guided_grammar":"root ::= x")", Kind::Grammar, "root ::= x"},
      {R"(,"grammar":"root ::= y","json_schema":null)", Kind::Grammar, "root ::= y"},
      {R"(,"json_schema":{"a":1},"grammar":"")", Kind::JsonSchema, R"({"a":1})"},
  };
  for (const StructuredCase& each : cases) {
    const auto output = read_chat(each.more).sampling.params.structured_output;
    ASSERT_TRUE(output) << each.more;
    EXPECT_EQ(output->kind, each.kind) << each.more;
    EXPECT_EQ(output->text, each.text) << each.more;
  }
  EXPECT_FALSE(
      read_chat(R"(,"response_format":{"type":"text"})").sampling.params.structured_output);
}

TEST(ChatRequest, RenamesRolesAndReasoningForTemplates) {
  const ChatRequest request = read_chat_request(parse_body(
      R"({"messages":[{"role":"developer","content":"Be kind."},
                      {"role":"assistant","content":"x","reasoning":"because"}]})"));
  EXPECT_EQ(request.conversation.messages[0]["role"], "system");
  EXPECT_EQ(request.conversation.messages[1]["reasoning_content"], "because");
}

// A model may write a call that is not JSON; the conversation that contains it goes on.
TEST(ChatRequest, KeepsMalformedArgumentsOfEarlierCalls) {
  const ChatRequest request = read_chat_request(parse_body(
      R"({"messages":[{"role":"assistant","tool_calls":[
        {"id":"1","type":"function","function":{"name":"f","arguments":"{\"x\":"}},
        {"id":"2","type":"function","function":{"name":"f","arguments":"[1]"}},
        {"id":"3","type":"function","function":{"name":"f","arguments":"{\"x\":1}"}},
        {"id":"4","type":"function","function":{"name":"f","arguments":""}}]}]})"));
  const OrderedJson& calls = request.conversation.messages[0]["tool_calls"];
  EXPECT_EQ(calls[0]["function"]["arguments"], OrderedJson({{"unparsed", "{\"x\":"}}));
  EXPECT_EQ(calls[1]["function"]["arguments"], OrderedJson({{"unparsed", "[1]"}}));
  EXPECT_EQ(calls[2]["function"]["arguments"], R"({"x":1})");
  EXPECT_EQ(calls[3]["function"]["arguments"], "");
}

TEST(ChatRequest, ReadsSpeculation) {
  using Method = Speculation::Method;
  EXPECT_EQ(read_chat(R"(,"speculate":"ngram:2,7")").sampling.params.speculate,
            (Speculation{.method = Method::Ngram, .min_match = 2, .max_tokens = 7}));
  EXPECT_EQ(read_chat(R"(,"speculate":"off")").sampling.params.speculate, Speculation());
  EXPECT_FALSE(read_chat("").sampling.params.speculate);
}

TEST(ChatRequest, ReadsPromptLogprobsAndBadWords) {
  const Sampling sampling = read_chat(R"(,"prompt_logprobs":0,"bad_words":["a"," b"])").sampling;
  EXPECT_EQ(sampling.params.prompt_logprobs, 0);
  EXPECT_EQ(sampling.bad_words, (std::vector<std::string>{"a", " b"}));
  EXPECT_FALSE(read_chat("").sampling.params.prompt_logprobs);
}

TEST(ChatRequest, ContinuesALastMessageOfTheAssistant) {
  const auto is_continued = [](const std::string& last, const std::string& more) {
    return read_chat_request(parse_body(R"({"messages":[{"role":"user","content":"Hi"},)" + last +
                                        "]" + more + "}"))
        .conversation.continue_final_message;
  };
  const std::string assistant = R"({"role":"assistant","content":"The sum is"})";
  EXPECT_TRUE(is_continued(assistant, ""));
  EXPECT_TRUE(
      is_continued(assistant, R"(,"continue_final_message":true,"add_generation_prompt":false)"));
  EXPECT_FALSE(is_continued(assistant, R"(,"continue_final_message":false)"));
  EXPECT_FALSE(is_continued(assistant, R"(,"add_generation_prompt":true)"));
  EXPECT_FALSE(is_continued(R"({"role":"user","content":"x"})", ""));
  EXPECT_FALSE(is_continued(R"({"role":"assistant","content":null,"tool_calls":[
      {"id":"1","function":{"name":"f","arguments":"{}"}}]})",
                            ""));
}

TEST(ChatRequest, PassesVerbosityToTheTemplate) {
  EXPECT_EQ(read_chat(R"(,"verbosity":"low")").conversation.extra["verbosity"], "low");
  EXPECT_FALSE(read_chat("").conversation.extra.contains("verbosity"));
}

TEST(ChatRequest, ToolChoiceNoneDropsTheTools) {
  const std::string tools = R"(,"tools":[{"type":"function","function":{"name":"f"}}])";
  EXPECT_TRUE(read_chat(tools).parse_tool_calls);
  EXPECT_FALSE(read_chat(tools).single_call);
  EXPECT_TRUE(read_chat(tools + R"(,"parallel_tool_calls":false)").single_call);
  const ChatRequest none = read_chat(tools + R"(,"tool_choice":"none")");
  EXPECT_FALSE(none.parse_tool_calls);
  EXPECT_TRUE(none.conversation.tools.is_null());
}

TEST(ChatRequest, ReadsForcedCalls) {
  const std::string tools =
      R"(,"tools":[{"type":"function","function":{"name":"f"}},{"type":"function","function":{"name":"g"}}])";
  const auto choice = [&](const std::string& value) {
    return read_chat(tools + ",\"tool_choice\":" + value).tool_choice;
  };
  using Names = std::vector<std::string>;
  EXPECT_FALSE(choice("\"auto\"").is_forced);
  EXPECT_TRUE(choice("\"required\"").is_forced);
  EXPECT_EQ(choice("\"required\"").names, Names());
  EXPECT_TRUE(choice(R"({"type":"function","function":{"name":"g"}})").is_forced);
  EXPECT_EQ(choice(R"({"type":"function","function":{"name":"g"}})").names, Names{"g"});
  EXPECT_EQ(choice(R"({"type":"function","name":"f"})").names, Names{"f"});
  const ToolChoice allowed = choice(
      R"({"type":"allowed_tools","allowed_tools":{"mode":"required","tools":[{"type":"function","function":{"name":"g"}}]}})");
  EXPECT_TRUE(allowed.is_forced);
  EXPECT_EQ(allowed.names, Names{"g"});
  EXPECT_FALSE(
      choice(R"({"type":"allowed_tools","mode":"auto","tools":[{"type":"function","name":"g"}]})")
          .is_forced);
}

TEST(ChatRequest, ReadsReasoningEffort) {
  using api::Thinking;
  EXPECT_EQ(read_chat("").conversation.thinking, Thinking::ModelDecides);
  EXPECT_EQ(read_chat(R"(,"reasoning_effort":"none")").conversation.thinking, Thinking::Off);
  EXPECT_EQ(read_chat(R"(,"reasoning":{"effort":"high"})").conversation.thinking, Thinking::On);
  const auto effort = [&](const char* more) {
    return read_chat(more).conversation.extra["reasoning_effort"];
  };
  EXPECT_EQ(effort(R"(,"reasoning_effort":"high")"), "high");
  EXPECT_EQ(effort(R"(,"reasoning_effort":"high","chat_template_kwargs":{"reasoning_effort":1})"),
            1);
  EXPECT_EQ(read_chat(R"(,"chat_template_kwargs":{"enable_thinking":false})").conversation.thinking,
            Thinking::Off);
}

TEST(Sampling, UnsetFieldsUseTheModelsDefaults) {
  models::ModelConfig config;
  config.temperature = 0.6;
  config.top_k = 20;
  EXPECT_DOUBLE_EQ(read_chat("").sampling.for_model(config).temperature, 0.6);
  EXPECT_EQ(read_chat("").sampling.for_model(config).top_k, 20);
  EXPECT_DOUBLE_EQ(read_chat(R"(,"temperature":1)").sampling.for_model(config).temperature, 1);
}

api::Update update(const std::string& text, std::int64_t sample = 0) {
  return {.id = {.request = 1, .sample = sample}, .tokens = {1}, .text = text};
}

api::Update last(const std::string& text, api::FinishReason reason, std::int64_t sample = 0) {
  api::Update made = update(text, sample);
  made.finish = api::Finish{.reason = reason};
  return made;
}

const Identity kIdentity = {.id = "chatcmpl-1", .created = 7, .model = "m"};

// The events of a stream without [DONE]; checks the SSE framing.
std::vector<Json> events(const std::string& stream) {
  std::vector<Json> found;
  std::string_view rest = stream;
  while (!rest.empty()) {
    const std::size_t end = rest.find("\n\n");
    EXPECT_TRUE(rest.starts_with("data: ") && end != std::string_view::npos) << rest;
    const std::string_view data = rest.substr(6, end - 6);
    if (data != "[DONE]") found.push_back(Json::parse(data));
    rest.remove_prefix(end + 2);
  }
  return found;
}

TEST(ChatResponseWriter, WritesOneObject) {
  ChatResponseWriter writer(kIdentity, {.format = {.parse_tool_calls = true}, .num_choices = 2});
  EXPECT_EQ(writer.append(0, update("<think>hm</think>A")), "");
  EXPECT_EQ(writer.append(0, last("", api::FinishReason::Length)), "");
  writer.append(0, last(R"(<tool_call>{"name":"f","arguments":{"x":1}}</tool_call>)",
                        api::FinishReason::Stop, 1));
  const Json json = Json::parse(writer.finish({.num_prompt = 5, .num_cached = 4, .num_output = 3}));
  EXPECT_EQ(json["object"], "chat.completion");
  const Json& first = json["choices"][0];
  EXPECT_EQ(first["message"]["content"], "A");
  EXPECT_EQ(first["message"]["reasoning_content"], "hm");
  EXPECT_EQ(first["message"]["reasoning"], "hm");
  EXPECT_EQ(first["finish_reason"], "length");
  EXPECT_TRUE(first["logprobs"].is_null());
  const Json& second = json["choices"][1];
  EXPECT_TRUE(second["message"]["content"].is_null());
  EXPECT_EQ(second["message"]["tool_calls"][0]["function"]["name"], "f");
  EXPECT_EQ(second["message"]["tool_calls"][0]["function"]["arguments"], R"({"x":1})");
  EXPECT_EQ(second["finish_reason"], "tool_calls");
  EXPECT_EQ(json["usage"]["total_tokens"], 8);
  EXPECT_EQ(json["usage"]["prompt_tokens_details"]["cached_tokens"], 4);
  EXPECT_FALSE(json["usage"]["completion_tokens_details"].contains("accepted_prediction_tokens"));
}

TEST(ChatResponseWriter, UsageHasGuessedTokens) {
  ChatResponseWriter writer(kIdentity, {.num_choices = 1});
  writer.append(0, last("A", api::FinishReason::Stop));
  const Json json = Json::parse(
      writer.finish({.num_output = 9, .num_draft_tokens = 12, .num_accepted_tokens = 5}));
  const Json& details = json["usage"]["completion_tokens_details"];
  EXPECT_EQ(details["accepted_prediction_tokens"], 5);
  EXPECT_EQ(details["rejected_prediction_tokens"], 7);
}

TEST(ChatResponseWriter, MalformedCallsAreText) {
  ChatResponseWriter writer(kIdentity, {.format = {.parse_tool_calls = true}, .num_choices = 1});
  writer.append(0, last(R"(Hm. <tool_call>{"name":"f","arguments":{"x":]}}</tool_call>)",
                        api::FinishReason::Stop));
  const Json json = Json::parse(writer.finish({}));
  EXPECT_EQ(json["choices"][0]["message"]["content"],
            "Hm.\n"
            R"({"name":"f","arguments":{"x":]}})");
  EXPECT_FALSE(json["choices"][0]["message"].contains("tool_calls"));
  EXPECT_EQ(json["choices"][0]["finish_reason"], "stop");
}

TEST(ChatResponseWriter, WritesEvents) {
  ChatResponseWriter writer(kIdentity, {.format = {.parse_tool_calls = true},
                                        .num_choices = 1,
                                        .is_stream = true,
                                        .include_usage = true});
  std::string stream = writer.begin();
  stream += writer.append(0, update("<think>a"));
  stream += writer.append(0, update("</think>\n"));
  stream += writer.append(0, update("Hello"));
  stream += writer.append(0, update(R"( <tool_call>{"name":"f","arguments":{"x":)"));
  stream += writer.append(0, update(R"(1}}</tool_call><tool_call>{"name":"g"})"));
  stream += writer.append(0, last("</tool_call>", api::FinishReason::Stop));
  stream += writer.finish({.num_prompt = 2, .num_output = 6});
  EXPECT_TRUE(stream.ends_with("data: [DONE]\n\n"));

  const std::vector<Json> all = events(stream);
  EXPECT_EQ(all[0]["choices"][0]["delta"]["role"], "assistant");
  std::string content;
  std::string reasoning;
  std::vector<std::string> calls(2);
  for (const Json& event : all) {
    EXPECT_EQ(event["id"], "chatcmpl-1");
    EXPECT_EQ(event["object"], "chat.completion.chunk");
    if (event["choices"].empty()) continue;
    const Json& delta = event["choices"][0]["delta"];
    content += delta.value("content", "");
    reasoning += delta.value("reasoning_content", "");
    for (const Json& call : delta.value("tool_calls", Json::array())) {
      const auto index = call["index"].get<std::size_t>();
      calls[index] += call["function"].value("name", "") + call["function"].value("arguments", "");
      EXPECT_EQ(call.contains("id"), call["function"].contains("name"));
    }
  }
  EXPECT_EQ(content, "Hello");
  EXPECT_EQ(reasoning, "a");
  EXPECT_EQ(calls, (std::vector<std::string>{R"(f{"x":1})", "g{}"}));
  EXPECT_EQ(all[all.size() - 2]["choices"][0]["finish_reason"], "tool_calls");
  EXPECT_EQ(all.back()["usage"]["prompt_tokens"], 2);
  EXPECT_TRUE(all.back()["choices"].empty());
}

TEST(ChatResponseWriter, InvalidUtf8IsReplaced) {
  ChatResponseWriter writer(kIdentity, {.is_stream = true});
  for (const Json& event : events(writer.append(0, last("a\xff\n\"b", api::FinishReason::Stop))))
    EXPECT_EQ(event["id"], "chatcmpl-1");
  EXPECT_EQ(events(writer.error("it broke"))[0]["error"]["message"], "it broke");
}

}  // namespace
}  // namespace graft::server::openai
