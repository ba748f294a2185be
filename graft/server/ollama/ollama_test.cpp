// Ollama's API without sockets.

#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "graft/base/text/str.h"
#include "graft/server/api_error.h"
#include "graft/server/fields.h"
#include "graft/server/ollama/chat_request.h"
#include "graft/server/ollama/embed_request.h"
#include "graft/server/ollama/library_request.h"
#include "graft/server/ollama/models.h"
#include "graft/server/ollama/response.h"

namespace graft::server::ollama {
namespace {

double fixed_clock() {
  return 1;
}

TEST(OllamaRequest, ParsesChatRequests) {
  const Request request = read_chat(parse_body(
      R"({"model":"m","messages":[{"role":"assistant","thinking":"hm","tool_calls":[{"function":{"name":"f","arguments":{}}}]},
          {"role":"tool","content":"1","tool_name":"f"}],"tools":[{"type":"function"}],"think":true,
          "options":{"temperature":0.1,"num_predict":7,"seed":3,"stop":["x"],"num_ctx":4096,"num_gpu":9,"main_gpu":0,"num_thread":2,"use_mmap":true},
          "keep_alive":"1h30m"})"));
  EXPECT_TRUE(request.is_stream && request.is_chat && request.parse_tool_calls);
  EXPECT_EQ(request.conversation.thinking, api::Thinking::On);
  EXPECT_EQ(request.options.params.max_tokens, 7);
  EXPECT_EQ(request.options.params.seed, 3U);
  EXPECT_EQ(request.keep_alive_seconds, 5400);
  const OrderedJson& first = request.conversation.messages[0];
  EXPECT_EQ(first["content"], "");
  EXPECT_EQ(first["reasoning_content"], "hm");
  EXPECT_EQ(first["tool_calls"][0]["type"], "function");
  EXPECT_EQ(request.conversation.messages[1]["name"], "f");
}

TEST(OllamaRequest, WithoutPromptIsEmpty) {
  EXPECT_TRUE(read_chat(parse_body(R"({"model":"m"})")).is_empty);
  EXPECT_TRUE(read_generate(parse_body(R"({"model":"m","prompt":""})")).is_empty);
  EXPECT_FALSE(read_generate(parse_body(R"({"model":"m","prompt":"a"})")).is_empty);
}

TEST(OllamaRequest, RejectsUnsupportedAndInvalidFields) {
  for (const char* more : {R"("format":"yaml")",
                           R"("format":[1])",
                           R"("images":[1])",
                           R"("options":{"mirostat":2})",
                           R"("options":{"tfs_z":0.5})",
                           R"("options":{"num_keep":5})",
                           R"("options":{"repeat_penalty":1.1,"repeat_last_n":64})",
                           R"("template":"x")",
                           R"("keep_alive":"soon")",
                           R"("keep_alive":"5x")",
                           R"("options":{"temperature":"hot"})",
                           R"("options":3)",
                           R"("options":{"temprature":1})",
                           R"("options":{"rope_frequency_base":1})",
                           R"("options":{"penalize_newline":false})",
                           R"("messages":[])",
                           R"("tools":[])",
                           R"("truncate":true)",
                           R"("shift":true)",
                           R"("unknown":1)",
                           R"("stream":1)",
                           R"("think":3)"}) {
    EXPECT_THROW(
        read_generate(parse_body(std::string(R"({"model":"m","prompt":"a",)") + more + "}")),
        ApiError)
        << more;
  }
  EXPECT_THROW(read_chat(parse_body(R"({"messages":[]})")), ApiError);
  std::string stops = R"("x")";
  for (std::size_t i = 0; i < kMaxStops; ++i)
    stops += R"(,"x")";
  EXPECT_THROW(read_chat(parse_body(R"({"model":"m","options":{"stop":[)" + stops + "]}}")),
               ApiError);
}

TEST(OllamaRequest, OptionsTakeEffect) {
  const auto options = [](const std::string& text) {
    return read_generate(parse_body(R"({"model":"m","prompt":"a","options":)" + text + "}"))
        .options;
  };
  EXPECT_EQ(options(R"({"repeat_penalty":1.1,"repeat_last_n":0})").params.repetition_penalty, 1);
  EXPECT_EQ(options(R"({"repeat_penalty":1.5,"repeat_last_n":-1})").params.repetition_penalty, 1.5);
  EXPECT_NO_THROW(options(R"({"mirostat":0,"mirostat_tau":5,"tfs_z":1,"repeat_last_n":64})"));
  EXPECT_EQ(options(R"({"num_ctx":10})").num_ctx, 10);
  api::SamplingParams params;
  limit_context(std::nullopt, 100, params);
  EXPECT_FALSE(params.max_tokens);
  limit_context(10, 7, params);
  EXPECT_EQ(params.max_tokens, 3);
  limit_context(10, 2, params);
  EXPECT_EQ(params.max_tokens, 3);
  EXPECT_THROW(limit_context(10, 10, params), ApiError);
}

TEST(OllamaRequest, ParsesEmbeddings) {
  const EmbedRequest request = read_embed(
      parse_body(
          R"({"model":"m","input":["a","b"],"truncate":false,"dimensions":4,"keep_alive":60})"),
      false);
  EXPECT_EQ(request.model, "m");
  EXPECT_EQ(request.texts, (std::vector<std::string>{"a", "b"}));
  EXPECT_FALSE(request.truncate);
  EXPECT_EQ(request.dimensions, 4);
  EXPECT_FALSE(request.num_ctx);
  EXPECT_EQ(
      read_embed(parse_body(R"({"model":"m","input":"a","options":{"num_ctx":9}})"), false).num_ctx,
      9);
  EXPECT_EQ(request.keep_alive_seconds, 60);
  const EmbedRequest legacy = read_embed(parse_body(R"({"model":"m","prompt":"a"})"), true);
  EXPECT_EQ(legacy.texts, std::vector<std::string>{"a"});
  EXPECT_TRUE(legacy.truncate);
  for (const char* body :
       {R"({"model":"m"})", R"({"input":"a"})", R"({"model":"m","input":[]})",
        R"({"model":"m","input":[1]})", R"({"model":"m","prompt":"a"})",
        R"({"model":"m","input":"a","dimensions":0})", R"({"model":"m","input":"a","prompt":"a"})",
        R"({"model":"m","input":"a","options":{"frobnicate":1}})"})
    EXPECT_THROW(read_embed(parse_body(body), false), ApiError) << body;
  EXPECT_EQ(read_show(parse_body(R"({"name":"m"})")), "m");
  EXPECT_EQ(read_show(parse_body(R"({"name":"m","model":"n"})")), "n");
  EXPECT_THROW(read_show(parse_body("{}")), ApiError);
  EXPECT_THROW(read_show(parse_body(R"({"name":"m","verbose":true})")), ApiError);
}

TEST(OllamaRequest, ParsesDurations) {
  const auto seconds = [](const std::string& value) {
    const OrderedJson json = parse_body(R"({"keep_alive":)" + value + "}");
    return read_keep_alive(Fields(json)).value();
  };
  EXPECT_EQ(seconds("300"), 300);
  EXPECT_EQ(seconds("-1"), -1);
  EXPECT_EQ(seconds("\"5m\""), 300);
  EXPECT_EQ(seconds("\"-1s\""), -1);
  EXPECT_EQ(seconds("\"1.5h\""), 5400);
  EXPECT_EQ(seconds("\"500ms\""), 0.5);
  EXPECT_EQ(seconds("\"0\""), 0);
}

TEST(OllamaRequest, UnsetOptionsUseTheModelsThenOllamasDefaults) {
  const Options options = read_generate(parse_body(R"({"model":"m"})")).options;
  EXPECT_DOUBLE_EQ(options.for_model({}).temperature, 0.8);
  models::ModelConfig config;
  config.temperature = 0.6;
  EXPECT_DOUBLE_EQ(options.for_model(config).temperature, 0.6);
  EXPECT_EQ(options.for_model(config).top_k, 40);
}

TEST(OllamaRequest, TellsGoTemplatesFromJinja) {
  for (const char* go : {"{{ .Prompt }}", "{{- range .Messages }}", "a {{ if .System }}b{{ end }}",
                         "{{ $last := 1 }}"})
    EXPECT_TRUE(is_go_template(go)) << go;
  for (const char* jinja : {"{{ messages[0].content }}", "{% if tools %}{% endif %}", "plain",
                            "{{- '<s>' }}", "{{ endoftext }}"})
    EXPECT_FALSE(is_go_template(jinja)) << jinja;
}

TEST(OllamaRequest, ParsesNewModels) {
  const NewModelRequest request = read_create(parse_body(
      R"({"model":"m","from":"b","system":"","parameters":{"stop":["x"],"num_ctx":64},
          "license":["a","b"],"stream":false,"template":"chatml"})"));
  EXPECT_EQ(request.create.model, "m");
  EXPECT_EQ(request.create.system, "");
  EXPECT_EQ(request.create.license, "a\nb");
  EXPECT_NE(request.create.chat_template->find("im_start"), std::string::npos);
  EXPECT_EQ(request.create.parameters.size(), 2U);
  EXPECT_FALSE(request.is_stream);
  for (const char* more :
       {R"("files":{"a.gguf":"sha256:1"})", R"("quantize":"q4_K_M")",
        R"("parameters":{"num_gpu":1})", R"("parameters":[])", R"("other":1)", R"("from":"")",
        R"("parameters":{"repeat_last_n":64,"repeat_penalty":2})"})
    EXPECT_THROW(read_create(parse_body(str(R"({"model":"m","from":"b",)", more, "}"))), ApiError)
        << more;
}

api::Update update(const std::string& text, bool is_last) {
  api::Update made = {.tokens = {5}, .text = text};
  if (is_last) made.finish = api::Finish{.reason = api::FinishReason::Stop};
  return made;
}

TEST(OllamaResponseWriter, StreamsOneLinePerUpdate) {
  OllamaResponseWriter writer(
      {.model = "m", .format = {.parse_tool_calls = true}, .clock = fixed_clock});
  std::string stream = writer.append(0, update("<think>a</think>B", false));
  stream +=
      writer.append(0, update(R"(<tool_call>{"name":"f","arguments":{"x":1}}</tool_call>)", true));
  stream += writer.finish({.num_prompt = 3, .num_output = 2, .prefill_seconds = 0.5});
  std::vector<Json> lines;
  std::istringstream in(stream);
  for (std::string line; std::getline(in, line);)
    lines.push_back(Json::parse(line));
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_EQ(lines[0]["message"]["thinking"], "a");
  EXPECT_EQ(lines[0]["message"]["content"], "B");
  EXPECT_EQ(lines[0]["done"], false);
  EXPECT_EQ(lines[0]["created_at"], "1970-01-01T00:00:01.000000Z");
  EXPECT_EQ(lines[1]["message"]["tool_calls"][0]["function"]["arguments"]["x"], 1);
  EXPECT_EQ(lines[2]["done"], true);
  EXPECT_EQ(lines[2]["done_reason"], "stop");
  EXPECT_EQ(lines[2]["prompt_eval_duration"], 500'000'000);
  EXPECT_EQ(lines[2]["eval_count"], 2);
}

// Calls are whole, also in a stream; arguments that are not JSON are text.
TEST(OllamaResponseWriter, CollectsThePiecesOfCalls) {
  OllamaResponseWriter writer(
      {.model = "m", .format = {.parse_tool_calls = true}, .clock = fixed_clock});
  EXPECT_EQ(writer.append(0, update(R"(<tool_call>{"name":"f","arguments":{"x)", false)), "");
  EXPECT_EQ(writer.append(0, update(R"(":1}}</tool_call>)", false)), "");
  const Json first =
      Json::parse(writer.append(0, update(R"(<tool_call>{"name":"g","arguments":{"y)", false)));
  EXPECT_EQ(first["message"]["tool_calls"].size(), 1U);
  EXPECT_EQ(first["message"]["tool_calls"][0]["function"]["arguments"]["x"], 1);
  const Json last = Json::parse(writer.append(0, update("", true)));
  EXPECT_EQ(last["message"]["content"],
            "\n"
            R"({"name":"g","arguments":{"y)");
  EXPECT_FALSE(last["message"].contains("tool_calls"));
}

TEST(OllamaResponseWriter, WritesOneObject) {
  OllamaResponseWriter writer({.model = "m",
                               .is_chat = false,
                               .is_stream = false,
                               .context = {1, 2},
                               .clock = fixed_clock});
  EXPECT_EQ(writer.append(0, update("a", false)), "");
  EXPECT_EQ(writer.append(0, update("b", true)), "");
  const Json json = Json::parse(writer.finish({}));
  EXPECT_EQ(json["response"], "ab");
  EXPECT_EQ(json["context"], Json({1, 2, 5, 5}));
  EXPECT_EQ(Json::parse(empty_response("m", true, "load", 1))["done_reason"], "load");
}

TEST(OllamaModels, AreDescribed) {
  const ModelInfo info = {.name = "m",
                          .bytes = 10,
                          .architecture = "qwen3",
                          .num_parameters = 7'600'000'000,
                          .quantization = "Q4_K",
                          .context_length = 4096,
                          .num_heads = 16,
                          .parameters = "top_k 20",
                          .chat_template = "{% if tools %}"};
  EXPECT_EQ(tag_json(info)["details"]["parameter_size"], "7.6B");
  EXPECT_EQ(show_json(info)["model_info"]["qwen3.context_length"], 4096);
  EXPECT_EQ(show_json(info)["model_info"]["qwen3.attention.head_count"], 16);
  EXPECT_EQ(show_json(info)["parameters"], "top_k 20");
  EXPECT_EQ(show_json(info)["capabilities"], OrderedJson({"completion", "embedding", "tools"}));
}

}  // namespace
}  // namespace graft::server::ollama
