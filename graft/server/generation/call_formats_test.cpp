// Tool calls as the model cards and chat templates of the families print them, and as
// chat::call_template() describes them.

#include <algorithm>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "graft/base/text/str.h"
#include "graft/chat/call_template.h"
#include "graft/server/generation/output_parser.h"

namespace graft::server {
namespace {

using formats::ToolCallFormat;

struct Published {
  const char* model;
  ToolCallFormat format;
  std::string text;
  std::string content;
  std::vector<std::string> calls;  // "name arguments"
  std::string reasoning = {};
};

// clang-format off
const Published kPublished[] = {
    {"Qwen2.5", ToolCallFormat::Hermes,
     "<tool_call>\n{\"name\": \"get_current_temperature\", \"arguments\": {\"location\": \"San Francisco, CA, USA\"}}\n</tool_call>\n"
     "<tool_call>\n{\"name\": \"get_temperature_date\", \"arguments\": {\"location\": \"San Francisco, CA, USA\", \"date\": \"2024-10-01\"}}\n</tool_call>",
     "", {R"(get_current_temperature {"location": "San Francisco, CA, USA"})",
          R"(get_temperature_date {"location": "San Francisco, CA, USA", "date": "2024-10-01"})"}},
    {"Qwen3", ToolCallFormat::Hermes,
     "<think>\nA tool helps.\n</think>\n\nOne moment.\n<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>",
     "One moment.", {"f {}"}, "A tool helps."},
    {"Hermes-2-Pro", ToolCallFormat::Hermes,
     "<tool_call>\n{\"arguments\": {\"symbol\": \"TSLA\"}, \"name\": \"get_stock_fundamentals\"}\n</tool_call>",
     "", {R"(get_stock_fundamentals {"symbol":"TSLA"})"}},
    {"Qwen3-Coder", ToolCallFormat::Hermes,
     "I'll look.\n\n<tool_call>\n<function=square_the_number>\n<parameter=input_num>\n1024\n</parameter>\n</function>\n</tool_call>",
     "I'll look.", {R"(square_the_number {"input_num":1024})"}},
    {"DeepSeek-V3", ToolCallFormat::DeepSeek,
     "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_current_weather\n```json\n{\"location\": \"Paris\"}\n```<｜tool▁call▁end｜>\n"
     "<｜tool▁call▁begin｜>function<｜tool▁sep｜>get_current_weather\n```json\n{\"location\": \"Rome\"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
     "", {R"(get_current_weather {"location": "Paris"})", R"(get_current_weather {"location": "Rome"})"}},
    {"DeepSeek-V3.1", ToolCallFormat::DeepSeek,
     "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>{\"city\": \"Hangzhou\"}<｜tool▁call▁end｜>"
     "<｜tool▁call▁begin｜>now<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
     "", {R"(get_weather {"city": "Hangzhou"})", "now {}"}},
    {"DeepSeek-V3.2", ToolCallFormat::Dsml,
     "Both.\n\n<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"get_datetime\">\n<｜DSML｜parameter name=\"timezone\" string=\"true\">Asia/Shanghai</｜DSML｜parameter>\n"
     "<｜DSML｜parameter name=\"days\" string=\"false\">2</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>",
     "Both.", {R"(get_datetime {"timezone":"Asia/Shanghai","days":2})"}},
    {"Llama-3.1", ToolCallFormat::Llama,
     R"({"name": "get_current_conditions", "parameters": {"location": "San Francisco, CA", "unit": "Fahrenheit"}})",
     "", {R"(get_current_conditions {"location": "San Francisco, CA", "unit": "Fahrenheit"})"}},
    {"Llama-3.1, built-in tool", ToolCallFormat::Llama,
     R"(<|python_tag|>brave_search.call(query="Menlo Park California weather"))",
     "", {R"(brave_search {"query":"Menlo Park California weather"})"}},
    {"Llama-3.2", ToolCallFormat::Llama,
     "[get_user_info(user_id=7890, special='black'), get_weather(city='Seattle')]",
     "", {R"(get_user_info {"user_id":7890,"special":"black"})", R"(get_weather {"city":"Seattle"})"}},
    {"Llama-4", ToolCallFormat::Llama,
     "<|python_start|>[get_weather(city=\"San Francisco\", metric=\"celsius\")]<|python_end|>",
     "", {R"(get_weather {"city":"San Francisco","metric":"celsius"})"}},
    {"Mistral-7B-Instruct-v0.3", ToolCallFormat::Mistral,
     R"([TOOL_CALLS] [{"name": "get_current_weather", "arguments": {"location": "Paris", "format": "celsius"}}, {"name": "f", "arguments": {}, "id": "9Ae3bDc2F"}])",
     "", {R"(get_current_weather {"location": "Paris", "format": "celsius"})", "f {}"}},
    {"Mistral-Small-3.2", ToolCallFormat::Mistral,
     "Sure.[TOOL_CALLS]get_current_population[ARGS]{\"country\": \"France\"}[TOOL_CALLS]rewrite[ARGS]{\"text\": \"[ARGS]\"}",
     "Sure.", {R"(get_current_population {"country": "France"})", R"(rewrite {"text": "[ARGS]"})"}},
    {"Mistral, with ids", ToolCallFormat::Mistral,
     "[TOOL_CALLS]add[CALL_ID]123456789[ARGS]{\"a\": 3, \"b\": 4}", "", {R"(add {"a": 3, "b": 4})"}},
    {"Kimi-K2", ToolCallFormat::Kimi,
     "<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0<|tool_call_argument_begin|>{\"city\": \"Beijing\"}<|tool_call_end|><|tool_calls_section_end|>",
     "", {R"(get_weather {"city": "Beijing"})"}},
    {"GLM-4.5", ToolCallFormat::Hermes,
     "\n<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Beijing</arg_value>\n<arg_key>date</arg_key>\n<arg_value>2024-06-27</arg_value>\n</tool_call>",
     "", {R"(get_weather {"city":"Beijing","date":"2024-06-27"})"}},
    {"GLM-5", ToolCallFormat::Hermes,
     "<tool_call>get_weather<arg_key>city</arg_key><arg_value>Beijing</arg_value></tool_call>",
     "", {R"(get_weather {"city":"Beijing"})"}},
    {"MiniMax-M2", ToolCallFormat::MiniMax,
     "<minimax:tool_call>\n<invoke name=\"search_web\">\n<parameter name=\"query_tag\">[\"technology\", \"events\"]</parameter>\n"
     "<parameter name=\"query\">latest release</parameter>\n</invoke>\n</minimax:tool_call>",
     "", {R"(search_web {"query_tag":["technology","events"],"query":"latest release"})"}},
    {"MiniMax-M2, interleaved", ToolCallFormat::MiniMax,
     "<think>First.</think>\n<minimax:tool_call>\n<invoke name=\"f\">\n</invoke>\n</minimax:tool_call>\n<think>Then.</think>\nDone.",
     "Done.", {"f {}"}, "First.\n\nThen."},
    {"gpt-oss", ToolCallFormat::Harmony,
     "<|channel|>analysis<|message|>Need to use function get_current_weather.<|end|><|start|>assistant<|channel|>commentary to=functions.get_current_weather "
     "<|constrain|>json<|message|>{\"location\":\"San Francisco\"}<|call|>",
     "", {R"(get_current_weather {"location":"San Francisco"})"}, "Need to use function get_current_weather."},
};
// clang-format on

OutputDelta parse_output(const OutputFormat& format, std::string_view text, std::size_t max_piece) {
  std::mt19937 random(static_cast<unsigned>(max_piece));
  OutputParser parser(format);
  OutputDelta all;
  while (!text.empty()) {
    // Far larger than the text: in one piece.
    const std::size_t size = max_piece > 64 * text.size()
                                 ? text.size()
                                 : std::min(text.size(), 1 + random() % max_piece);
    all.append(parser.feed(text.substr(0, size)));
    text.remove_prefix(size);
  }
  all.append(parser.finish());
  return all;
}

std::vector<std::string> described_calls(const OutputDelta& delta) {
  std::vector<std::string> calls;
  for (const ToolCall& call : delta.calls)
    calls.push_back(call.name + " " + call.arguments);
  return calls;
}

OutputFormat format_of(ToolCallFormat format) {
  OutputFormat out = {.parse_tool_calls = true, .tool_calls = format};
  if (format == ToolCallFormat::Harmony) out.reasoning = formats::kHarmonyReasoning;
  return out;
}

TEST(CallFormats, ReadPublishedOutputs) {
  for (const Published& one : kPublished) {
    for (std::size_t max_piece = 1; max_piece < 40; ++max_piece) {
      const OutputDelta all = parse_output(format_of(one.format), one.text, max_piece);
      EXPECT_EQ(all.content, one.content) << one.model;
      EXPECT_EQ(all.reasoning, one.reasoning) << one.model;
      EXPECT_EQ(described_calls(all), one.calls) << one.model;
    }
  }
}

TEST(CallFormats, IdsOfMistralHaveNineCharacters) {
  const OutputFormat format = format_of(ToolCallFormat::Mistral);
  EXPECT_EQ(parse_output(format, "[TOOL_CALLS]f[ARGS]{}", 50).calls[0].id.size(), 9U);
  EXPECT_EQ(parse_output(format, "[TOOL_CALLS][{\"name\": \"f\"}]", 50).calls[0].id.size(), 9U);
  EXPECT_EQ(parse_output(format, "[TOOL_CALLS]f[CALL_ID]a1b2c3d4e[ARGS]{}", 50).calls[0].id,
            "a1b2c3d4e");
}

// Random parts of calls, well-formed or not: the result does not depend on the pieces.
TEST(CallFormats, AnyTextIsIndependentOfChunking) {
  // clang-format off
  const std::vector<std::string> parts = {
      "<tool_call>", "</tool_call>", "{\"name\": \"f\", ", "\"arguments\": {", "\"parameters\": {", "\"x\": \"", "\", ", "}", "}}", "]", "[", "{",
      "<function=f>", "</function>", "<parameter=a>", "</parameter>", "<invoke name=\"f\">", "<parameter name=\"b\">", "</invoke>", "<minimax:tool_call>",
      "<arg_key>k</arg_key>", "<arg_value>", "</arg_value>", "f", "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "<｜tool▁call▁end｜>", "function", "\n```json\n", "```",
      "<|tool_call_begin|>", "functions.f:0", "<|tool_call_argument_begin|>", "<|tool_call_end|>", "[TOOL_CALLS]", "[ARGS]", "[CALL_ID]", "<|python_tag|>",
      "<|python_start|>", "<|python_end|>", "[f(x=1)]", "f.call(q=\"a\")", "<|channel|>commentary to=functions.", "<|message|>", "<|call|>", "<|start|>", "<|end|>",
      "<｜DSML｜invoke name=\"f\">", "<｜DSML｜parameter name=\"p\" string=\"false\">", "</｜DSML｜parameter>", "</｜DSML｜invoke>", "<think>", "</think>",
      " ", "\n", "text", "\\", "\"", "1", ";", ",", "\"id\": \"i\"", "<", "<|", "é"};
  // clang-format on
  std::mt19937 random(7);
  for (int i = 0; i < 4000; ++i) {
    std::string text;
    for (auto count = random() % 14; count > 0; --count)
      text += parts[random() % parts.size()];
    const auto kind = static_cast<ToolCallFormat>(random() % 9);
    OutputFormat format = format_of(kind);
    format.single_call = random() % 4 == 0;
    format.in_thinking = random() % 8 == 0;
    const OutputDelta whole = parse_output(format, text, text.size() * 64 + 1);
    for (const std::size_t max_piece : {std::size_t{1}, std::size_t{6}}) {
      const OutputDelta got = parse_output(format, text, max_piece);
      ASSERT_EQ(got.content, whole.content) << text;
      ASSERT_EQ(got.reasoning, whole.reasoning) << text;
      ASSERT_EQ(described_calls(got), described_calls(whole)) << text;
    }
  }
}

// f(a=1, b="x") and g(), as a grammar of forced calls would write them.
std::string rendered(const chat::CallTemplate& form) {
  const auto call = [&](std::string_view name, int index, std::string_view arguments) {
    const std::string number =
        form.before_index.empty() ? "" : str(form.before_index, std::to_string(index));
    return str(form.before_name, name, number, form.before_arguments, arguments,
               form.after_arguments);
  };
  std::string first = R"({"a": 1, "b": "x"})";
  if (!form.has_json_arguments) {
    first = str(form.before_key, "a", form.before_json, "1", form.after_value, form.before_key, "b",
                form.before_text, "x", form.after_value);
  }
  return str(form.begin, call("f", 0, first), form.separator,
             call("g", 1, form.has_json_arguments ? "{}" : ""), form.end);
}

TEST(CallTemplate, RenderedCallsAreParsed) {
  struct Variant {
    ToolCallFormat format;
    const char* template_source;
  };
  const Variant variants[] = {
      {ToolCallFormat::Any, ""},
      {ToolCallFormat::Hermes, ""},
      {ToolCallFormat::Hermes, "<function="},
      {ToolCallFormat::Hermes, "<arg_key>"},
      {ToolCallFormat::DeepSeek, ""},
      {ToolCallFormat::DeepSeek, "```json"},
      {ToolCallFormat::MiniMax, ""},
      {ToolCallFormat::Kimi, ""},
      {ToolCallFormat::Dsml, ""},
      {ToolCallFormat::Mistral, ""},
      {ToolCallFormat::Mistral, "[ARGS]"},
      {ToolCallFormat::Llama, ""},
      {ToolCallFormat::Harmony, ""},
  };
  for (const Variant& variant : variants) {
    const chat::CallTemplate form = chat::call_template(variant.format, variant.template_source);
    OutputFormat format = format_of(variant.format);
    format.tools = parse_ordered_json(
        R"([{"type": "function", "function": {"name": "f"}}, {"type": "function", "function": {"name": "g"}}])",
        "tools");
    const OutputDelta all = parse_output(format, rendered(form), 5);
    EXPECT_EQ(all.content, "") << rendered(form);
    const char* first =
        form.has_json_arguments ? R"(f {"a": 1, "b": "x"})" : R"(f {"a":1,"b":"x"})";
    EXPECT_EQ(described_calls(all), (std::vector<std::string>{first, "g {}"})) << rendered(form);
  }
}

}  // namespace
}  // namespace graft::server
