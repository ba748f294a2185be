#include "graft/server/generation/tool_calls.h"

#include <algorithm>
#include <functional>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "graft/server/generation/call_formats.h"

namespace graft::server {
namespace {

struct Case {
  std::string text;
  std::string content;
  std::vector<std::string> calls;  // "name arguments"
};

const Case kCases[] = {
    {"Hello.", "Hello.", {}},
    {"<tool_call>\n{\"name\": \"f\", \"arguments\": {\"b\": 1, \"a\": \"x\"}}\n</tool_call>",
     "",
     {R"(f {"b": 1, "a": "x"})"}},
    {"Let me look. \n<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>",
     "Let me look.",
     {"f {}"}},
    {"<tool_call>{\"name\":\"f\"}</"
     "tool_call>\n<tool_call>{\"name\":\"g\",\"arguments\":{\"x\":[1]}}</tool_call>\n",
     "",
     {"f {}", R"(g {"x":[1]})"}},
    // Arguments as text, and the other word for them.
    {R"(<tool_call>{"name":"f","arguments":"{\"x\": 1}"}</tool_call>)", "", {R"(f {"x":1})"}},
    {R"(<tool_call>{"name":"f","parameters":{"x":1}}</tool_call>)", "", {R"(f {"x":1})"}},
    // Lacks only its end.
    {"<tool_call>{\"name\":\"f\",\"arguments\":{}}", "", {"f {}"}},
    // No call after all: nothing is lost.
    {"<tool_call>not json</tool_call>", "<tool_call>not json</tool_call>", {}},
    {"<tool_call>{\"name\":\"f\",\"arguments\":3}</tool_call>",
     "<tool_call>{\"name\":\"f\",\"arguments\":3}</tool_call>",
     {}},
    {"<tool_call>{\"name\":", "<tool_call>{\"name\":", {}},
    // The head is a call: what follows is appended to the arguments as it is.
    {R"(<tool_call>{"name":"f","arguments":{"x": [1})", "", {R"(f {"x": [1})"}},
    {R"(<tool_call>{"name":"f","arguments":{"x": 1] }}</tool_call> Done.)",
     "Done.",
     {R"(f {"x": 1] }})"}},
    {"<tool_call><function=f><parameter=x>1</parameter>oops</function></tool_call>",
     "",
     {"f {\"x\":1oops</function>"}},
    {"<invoke name=\"f\"><parameter name=\"x\">1</parameter><parameter name=\"y\">cut of",
     "",
     {"f {\"x\":1<parameter name=\"y\">cut of"}},
    // A marker inside a string, members after the arguments, braces too many or too few.
    {R"(<tool_call>{"name":"f","arguments":{"x": "</tool_call>\"}"}}</tool_call>)",
     "",
     {R"(f {"x": "</tool_call>\"}"})"}},
    {R"(<tool_call>{"id":"1","name":"f","arguments":{}, "type": "function"}</tool_call>)",
     "",
     {"f {}"}},
    {R"(<tool_call>{"name":"f","arguments":{}}}</tool_call>)", "", {"f {}"}},
    {R"(<tool_call>{"name":"f","arguments":{}</tool_call>)", "", {"f {}"}},
    {R"(<tool_call>{"name":"f","arguments":{}} and more</tool_call>)", "and more", {"f {}"}},
    {R"(<tool_call>[{"name":"f","arguments":{}}, {"name":"g","arguments":{"x":{}}}]</tool_call>)",
     "",
     {"f {}", R"(g {"x":{}})"}},
    {R"(<tool_call>[{"name":"f"}, {"name":"g"}]</tool_call>)", "", {"f {}", "g {}"}},
    {"<tool_call>", "<tool_call>", {}},
    {"a <tool_cal b", "a <tool_cal b", {}},
    {"1 < 2 and <", "1 < 2 and <", {}},
    {"ends in blanks \n", "ends in blanks \n", {}},
    // DeepSeek, V3.1 and V3.
    {"Yes.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{\"x\": "
     "1}<｜tool▁call▁end｜><｜tool▁call▁begin｜>g<｜tool▁sep｜>{}<｜tool▁call▁end｜><"
     "｜tool▁calls▁end｜>",
     "Yes.",
     {R"(f {"x": 1})", "g {}"}},
    {"<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{\"x\": "
     "\"é\"}\n```<｜tool▁call▁"
     "end｜><｜tool▁calls▁end｜>",
     "",
     {R"(f {"x": "é"})"}},
    // MiniMax: values without types are JSON where they can be.
    {"Yes.\n<minimax:tool_call>\n<invoke name=\"f\">\n<parameter name=\"n\">3</parameter>\n"
     "<parameter name=\"s\">a <b>\n\"c\"</parameter>\n</invoke>\n<invoke name=\"g\">\n</invoke>\n"
     "</minimax:tool_call>",
     "Yes.",
     {R"(f {"n":3,"s":"a <b>\n\"c\""})", "g {}"}},
    {"<invoke name=\"f\"><parameter name=\"x\">1</invoke>",
     "<invoke name=\"f\"><parameter name=\"x\">1</invoke>",
     {}},
    {"<invoke name=\"f\">text</invoke>", "<invoke name=\"f\">text</invoke>", {}},
    // Kimi-K2.
    {"Look. <|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0"
     "<|tool_call_argument_begin|>{\"city\": \"Oslo\"}<|tool_call_end|><|tool_call_begin|>"
     "functions.f:1<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>",
     "Look.",
     {R"(get_weather {"city": "Oslo"})", "f {}"}},
    {"<|tool_call_begin|>functions.f:0{}<|tool_call_end|>",
     "<|tool_call_begin|>functions.f:0{}<|tool_call_end|>",
     {}},
    // Qwen3-Coder and Qwen3.5.
    {"Yes.\n<tool_call>\n<function=f>\n<parameter=n>\n3\n</parameter>\n<parameter=s>\na\nb\n"
     "</parameter>\n</function>\n</tool_call>\n<tool_call>\n<function=g>\n</function>\n</"
     "tool_call>",
     "Yes.",
     {R"(f {"n":3,"s":"a\nb"})", "g {}"}},
    {"<tool_call><function=f>text</function></tool_call>",
     "<tool_call><function=f>text</function></tool_call>",
     {}},
    // DeepSeek-V3.2: an attribute says whether a value is text or JSON.
    {"Yes.\n\n<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"f\">\n"
     "<｜DSML｜parameter name=\"city\" string=\"true\">New York</｜DSML｜parameter>\n"
     "<｜DSML｜parameter name=\"n\" string=\"false\">[1, 2]</｜DSML｜parameter>\n"
     "</｜DSML｜invoke>\n<｜DSML｜invoke name=\"g\">\n</｜DSML｜invoke>\n</｜DSML｜function_calls>",
     "Yes.",
     {R"(f {"city":"New York","n":[1,2]})", "g {}"}},
    // DeepSeek-V4 names the list otherwise.
    {"\n\n<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"f\">\n"
     "<｜DSML｜parameter name=\"n\" string=\"false\">3</｜DSML｜parameter>\n"
     "</｜DSML｜invoke>\n</｜DSML｜tool_calls>",
     "",
     {R"(f {"n":3})"}},
    {"<｜DSML｜invoke name=\"f\"><｜DSML｜parameter name=\"n\" string=\"false\">x"
     "</｜DSML｜parameter></｜DSML｜invoke>",
     "<｜DSML｜invoke name=\"f\"><｜DSML｜parameter name=\"n\" string=\"false\">x"
     "</｜DSML｜parameter></｜DSML｜invoke>",
     {}},
    // GLM.
    {"Look.\n<tool_call>f\n<arg_key>city</arg_key>\n<arg_value>New York</arg_value>\n"
     "<arg_key>n</arg_key>\n<arg_value>3</arg_value>\n</tool_call>",
     "Look.",
     {R"(f {"city":"New York","n":3})"}},
    {"<tool_call>f<arg_key>a</arg_key></tool_call>",
     "<tool_call>f<arg_key>a</arg_key></tool_call>",
     {}},
    // Llama 4, with its markers.
    {"<|python_start|>[f(x=1, s='a'), g()]<|python_end|>", "", {R"(f {"x":1,"s":"a"})", "g {}"}},
    {"<|python_start|>print(1)<|python_end|>", "<|python_start|>print(1)<|python_end|>", {}},
    // Harmony.
    {"Look.<|channel|>commentary to=functions.f<|message|>{\"x\": 1}<|call|>",
     "Look.",
     {R"(f {"x": 1})"}},
    {"<|channel|>commentary to=functions.f<|message|><|call|>", "", {"f {}"}},
    {"<|channel|>commentary to=functions.f<|message|>no json<|call|>",
     "<|channel|>commentary to=functions.f<|message|>no json<|call|>",
     {}},
};

// The output of a parser, with whole calls as "name arguments".
struct Parsed {
  std::string reasoning;
  std::string content;
  std::vector<std::string> calls;
};

Parsed parse_pieces(const ToolCallOptions& options,
                    std::string_view text,
                    const std::function<std::size_t()>& size) {
  ToolCallParser parser(options);
  Parsed all;
  std::vector<ToolCall> calls;
  const auto take = [&](ToolText part) {
    all.reasoning += part.reasoning;
    all.content += part.text;
    join_calls(calls, std::move(part.calls));
  };
  while (!text.empty()) {
    const std::size_t count = std::min(size(), text.size());
    take(parser.feed(text.substr(0, count)));
    text.remove_prefix(count);
  }
  take(parser.finish());
  for (std::size_t i = 0; i < calls.size(); ++i) {
    EXPECT_EQ(calls[i].index, i);
    EXPECT_FALSE(calls[i].id.empty());
    all.calls.push_back(calls[i].name + " " + calls[i].arguments);
  }
  return all;
}

// Fed whole, byte by byte and in random pieces.
void expect_parsed(const ToolCallOptions& options, const Case& c) {
  std::mt19937 random(1);
  for (int round = 0; round < 50; ++round) {
    const Parsed got = parse_pieces(options, c.text, [&]() -> std::size_t {
      if (round < 2) return round == 0 ? 1 : c.text.size();
      return 1 + random() % 12;
    });
    EXPECT_EQ(got.content, c.content) << c.text;
    EXPECT_EQ(got.calls, c.calls) << c.text;
  }
}

TEST(ToolCallParser, IsIndependentOfChunking) {
  for (const Case& c : kCases)
    expect_parsed({}, c);
}

// The first piece has the id and the name, the others the next characters of the arguments.
TEST(ToolCallParser, StreamsArguments) {
  ToolCallParser parser;
  EXPECT_TRUE(parser.feed(R"(<tool_call>{"name": "f", "arguments": )").calls.empty());
  const ToolText first = parser.feed(R"({"a": "x)");
  ASSERT_EQ(first.calls.size(), 1U);
  EXPECT_EQ(first.calls[0].name, "f");
  EXPECT_EQ(first.calls[0].arguments, R"({"a": "x)");
  const ToolText second = parser.feed("yz\", ");
  ASSERT_EQ(second.calls.size(), 1U);
  EXPECT_EQ(second.calls[0].id + second.calls[0].name, "");
  EXPECT_EQ(second.calls[0].arguments, "yz\", ");
  const ToolText last = parser.feed(R"("b": {}}}</tool_call><tool_call>{"name": "g"}</tool_call>)");
  ASSERT_EQ(last.calls.size(), 2U);
  EXPECT_EQ(last.calls[0].arguments, R"("b": {}})");
  EXPECT_EQ(last.calls[1].index, 1U);
  EXPECT_EQ(last.calls[1].name, "g");
  EXPECT_EQ(last.text, "");
}

TEST(ToolCallParser, StreamsParameters) {
  ToolCallParser parser;
  EXPECT_TRUE(parser.feed("<tool_call><function=f><parameter=a>1").calls.empty());
  const ToolText first = parser.feed("</parameter><parameter=b>");
  ASSERT_EQ(first.calls.size(), 1U);
  EXPECT_EQ(first.calls[0].name + first.calls[0].arguments, R"(f{"a":1)");
  const ToolText second = parser.feed("x\n</parameter></function></tool_call>");
  ASSERT_EQ(second.calls.size(), 1U);
  EXPECT_EQ(second.calls[0].name + second.calls[0].arguments, R"(,"b":"x"})");
}

TEST(ToolCallParser, RecognizesOneFormatOnly) {
  const std::string hermes = R"(<tool_call>{"name":"f"}</tool_call>)";
  const std::string deepseek = "<｜tool▁call▁begin｜>f<｜tool▁sep｜>{}<｜tool▁call▁end｜>";
  const std::string harmony = "<|channel|>commentary to=functions.f<|message|>{}<|call|>";
  const auto num_calls = [](formats::ToolCallFormat format, const std::string& text) {
    ToolCallParser parser({.format = format});
    const ToolText part = parser.feed(text);
    EXPECT_EQ(part.text + parser.finish().text, part.calls.empty() ? text : "");
    return part.calls.size();
  };
  using formats::ToolCallFormat;
  EXPECT_EQ(num_calls(ToolCallFormat::Hermes, hermes), 1U);
  EXPECT_EQ(num_calls(ToolCallFormat::Hermes, deepseek), 0U);
  EXPECT_EQ(num_calls(ToolCallFormat::DeepSeek, hermes), 0U);
  EXPECT_EQ(num_calls(ToolCallFormat::DeepSeek, deepseek), 1U);
  EXPECT_EQ(num_calls(ToolCallFormat::MiniMax, hermes), 0U);
  EXPECT_EQ(num_calls(ToolCallFormat::Harmony, harmony), 1U);
  EXPECT_EQ(num_calls(ToolCallFormat::Harmony, hermes), 0U);
  EXPECT_EQ(num_calls(ToolCallFormat::Hermes, harmony), 0U);
  EXPECT_EQ(tool_marks(ToolCallFormat::Any).size(), 23U);
  EXPECT_EQ(tool_marks(ToolCallFormat::Hermes).front(), "<tool_call>");
}

// Llama: a response that is a list of calls as a whole.
TEST(ToolCallParser, ReadsWholeResponsesOfLlama) {
  const std::vector<Case> wholes = {
      {R"([get_weather(city="San \"F\", CA", days=3), now()])",
       "",
       {R"(get_weather {"city":"San \"F\", CA","days":3})", "now {}"}},
      {R"([f(a=True, b=None, c=[1, -2.5], d={'k': 'v'},)])",
       "",
       {R"(f {"a":true,"b":null,"c":[1,-2.5],"d":{"k":"v"}})"}},
      {R"({"name": "f", "parameters": {"x": 1}})", "", {R"(f {"x": 1})"}},
      {R"({"name": "f", "parameters": {}}; {"name": "g", "parameters": {"y": "z"}})",
       "",
       {"f {}", R"(g {"y": "z"})"}},
      {R"({"name": "f"})", "", {"f {}"}},
      {R"(<|python_tag|>{"name": "f", "parameters": {"x": 1}})", "", {R"(f {"x": 1})"}},
      {"[1, 2]", "[1, 2]", {}},
      {"[f(x)]", "[f(x)]", {}},
      {"[f(x=1)] is a call", "[f(x=1)] is a call", {}},
      {R"({"a": 1})", R"({"a": 1})", {}},
      {"The list [f(x=1)]", "The list [f(x=1)]", {}},
      {"Hi<|python_start|>[f()]<|python_end|>", "Hi", {"f {}"}},
      {"", "", {}},
  };
  for (const Case& whole : wholes)
    expect_parsed({.format = formats::ToolCallFormat::Llama}, whole);
}

const char* const kWeatherTools = R"([{"type": "function", "function": {"name": "get_weather",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}}])";

// A model without a format of its own: JSON that names a tool of the request.
TEST(ToolCallParser, ReadsJsonOfModelsWithoutFormat) {
  const OrderedJson tools = parse_ordered_json(kWeatherTools, "tools");
  const std::vector<Case> cases = {
      {R"({"name": "get_weather", "arguments": {"city": "Oslo"}})",
       "",
       {R"(get_weather {"city": "Oslo"})"}},
      {R"([{"name": "get_weather", "parameters": {}}, {"name": "get_weather", "parameters": {}}])",
       "",
       {"get_weather {}", "get_weather {}"}},
      {R"({"name": "Bob", "arguments": {}})", R"({"name": "Bob", "arguments": {}})", {}},
      {R"({"city": "Oslo"})", R"({"city": "Oslo"})", {}},
      {"[1, 2]", "[1, 2]", {}},
  };
  for (const Case& c : cases)
    expect_parsed({.tools = tools}, c);
}

// Everything after the first call is dropped.
TEST(ToolCallParser, StopsAfterASingleCall) {
  const std::vector<Case> cases = {
      {R"(A <tool_call>{"name":"f","arguments":{}}</tool_call> B <tool_call>{"name":"g"}</tool_call>)",
       "A",
       {"f {}"}},
      {R"(<tool_call>[{"name":"f","arguments":{}},{"name":"g","arguments":{}}]</tool_call>)",
       "",
       {"f {}"}},
      {R"(<tool_call>[{"name":"f"},{"name":"g"}]</tool_call>)", "", {"f {}"}},
      {"<tool_call><function=f></function></tool_call> B", "", {"f {}"}},
  };
  for (const Case& c : cases)
    expect_parsed({.single_call = true}, c);
}

// GLM writes a call without arguments as the name of a tool.
TEST(ToolCallParser, KnowsToolsByName) {
  const OrderedJson tools = parse_ordered_json(
      R"([{"type": "function", "function": {"name": "now", "parameters": {}}}])", "tools");
  ToolCallParser parser({.format = formats::ToolCallFormat::Hermes, .tools = tools});
  const ToolText part = parser.feed("<tool_call>now</tool_call><tool_call>then</tool_call>");
  ASSERT_EQ(part.calls.size(), 1U);
  EXPECT_EQ(part.calls[0].name + part.calls[0].arguments, "now{}");
  EXPECT_EQ(part.text, "<tool_call>then</tool_call>");
}

// The chat template of Kimi-K2 refers to a call by the id that the model wrote.
TEST(ToolCallParser, KeepsTheIdsOfKimi) {
  ToolCallParser parser({.format = formats::ToolCallFormat::Kimi});
  const ToolText part = parser.feed(
      "<|tool_call_begin|> functions.a:b:12 <|tool_call_argument_begin|> {} <|tool_call_end|>");
  ASSERT_EQ(part.calls.size(), 1U);
  EXPECT_EQ(part.calls[0].id, "functions.a:b:12");
  EXPECT_EQ(part.calls[0].name, "a:b");
}

// The schema of the tool decides between "12" and 12.
TEST(ToolCallParser, TypesOfTextArgumentsAreThoseOfTheTool) {
  const OrderedJson tools = parse_ordered_json(
      R"([{"type": "function", "function": {"name": "f", "parameters": {"type": "object",
          "properties": {"zip": {"type": "string"}, "n": {"type": "integer"}}}}}])",
      "tools");
  ToolCallParser parser({.format = formats::ToolCallFormat::MiniMax, .tools = tools});
  const ToolText part = parser.feed(
      "<minimax:tool_call><invoke name=\"f\"><parameter name=\"zip\">01234</parameter>"
      "<parameter name=\"n\">12</parameter><parameter name=\"o\">{\"a\": [1]}</parameter>"
      "<parameter name=\"t\">1 2</parameter></invoke></minimax:tool_call>");
  ASSERT_EQ(part.calls.size(), 1U);
  EXPECT_EQ(part.calls[0].arguments, R"({"zip":"01234","n":12,"o":{"a":[1]},"t":"1 2"})");
  EXPECT_EQ(part.text, "");
  ToolCallParser qwen({.format = formats::ToolCallFormat::Hermes, .tools = tools});
  const ToolText call = qwen.feed(
      "<tool_call>\n<function=f>\n<parameter=zip>\n01234\n</parameter>\n<parameter=n>\n12\n"
      "</parameter>\n</function>\n</tool_call>");
  ASSERT_EQ(call.calls.size(), 1U);
  EXPECT_EQ(call.calls[0].arguments, R"({"zip":"01234","n":12})");
}

TEST(ToolCallParser, StreamsTextAndAssignsUniqueCallIds) {
  ToolCallParser parser;
  EXPECT_EQ(parser.feed("Hello wor").text, "Hello wor");
  EXPECT_EQ(parser.feed("ld <too").text, "ld");
  EXPECT_EQ(parser.feed("th").text, " <tooth");
  std::string ids;
  for (int i = 0; i < 3; ++i) {
    const ToolText part = parser.feed(R"(<tool_call>{"name":"f"}</tool_call>)");
    ASSERT_EQ(part.calls.size(), 1U);
    EXPECT_TRUE(part.calls[0].id.starts_with("call_"));
    EXPECT_EQ(ids.find(part.calls[0].id), std::string::npos);
    ids += part.calls[0].id;
  }
}

}  // namespace
}  // namespace graft::server
