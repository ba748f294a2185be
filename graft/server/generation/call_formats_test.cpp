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
#include "graft/testing/published_calls.h"

namespace graft::server {
namespace {

using formats::ToolCallFormat;

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
  for (const testing::PublishedCalls& one : testing::kPublishedCalls) {
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
  if (form.is_python) first = R"(a=1, b="x")";
  return str(form.begin, form.list_begin, call("f", 0, first), form.separator,
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
      {ToolCallFormat::Hermes, "<arg_key>k</arg_key><arg_value>"},
      {ToolCallFormat::DeepSeek, ""},
      {ToolCallFormat::DeepSeek, "```json"},
      {ToolCallFormat::MiniMax, ""},
      {ToolCallFormat::Kimi, ""},
      {ToolCallFormat::Dsml, ""},
      {ToolCallFormat::Dsml, "<｜DSML｜tool_calls>"},
      {ToolCallFormat::Mistral, ""},
      {ToolCallFormat::Mistral, "[ARGS]"},
      {ToolCallFormat::Llama, ""},
      {ToolCallFormat::Llama, "[func_name1(params_name1=params_value1)]"},
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
