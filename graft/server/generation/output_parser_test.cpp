#include "graft/server/generation/output_parser.h"

#include <string>
#include <string_view>

#include <gtest/gtest.h>

namespace graft::server {
namespace {

constexpr const char* kAnswer =
    "<think>\nI need f.\n</think>\n\nOne moment.\n<tool_call>{\"name\":\"f\"}</tool_call>"
    "<tool_call>{\"name\":\"g\"}</tool_call>";

OutputDelta parse(const OutputFormat& format,
                  std::string_view text,
                  std::size_t size,
                  bool whole_calls = false) {
  OutputParser parser(format, whole_calls);
  OutputDelta all;
  for (std::size_t at = 0; at < text.size(); at += size)
    all.append(parser.feed(text.substr(at, size)));
  all.append(parser.finish());
  EXPECT_EQ(parser.has_calls(), !all.calls.empty());
  return all;
}

TEST(OutputParser, SplitsReasoningContentAndCalls) {
  for (std::size_t size = 1; size < 40; ++size) {
    const OutputDelta all = parse({.parse_tool_calls = true}, kAnswer, size);
    EXPECT_EQ(all.reasoning, "I need f.");
    EXPECT_EQ(all.content, "One moment.");
    ASSERT_EQ(all.calls.size(), 2U);
    EXPECT_EQ(all.calls[1].name, "g");
    EXPECT_EQ(parse({.parse_tool_calls = true, .single_call = true}, kAnswer, size).calls.size(),
              1U);
  }
}

// Reasoning between calls; the tag is content elsewhere.
TEST(OutputParser, ReadsInterleavedReasoning) {
  const std::string text =
      "<think>First f.</think>\n<tool_call>{\"name\":\"f\",\"arguments\":{\"a\":\"<think>\"}}"
      "</tool_call>\n<think>\nNow g.\n</think>\n\n<tool_call>{\"name\":\"g\"}</tool_call>\n"
      "<think>And</think>Done <think>.";
  for (std::size_t size = 1; size < text.size() + 1; ++size) {
    const OutputDelta all = parse({.parse_tool_calls = true}, text, size);
    EXPECT_EQ(all.reasoning, "First f.\n\nNow g.\n\nAnd");
    EXPECT_EQ(all.content, "Done <think>.");
    ASSERT_EQ(all.calls.size(), 2U);
    EXPECT_EQ(all.calls[0].arguments, R"({"a":"<think>"})");
  }
}

// A malformed or cut off call is content where calls are whole; in pieces it stays a call.
TEST(OutputParser, MalformedCallsComeBackAsText) {
  struct Case {
    std::string text;
    std::string content;
    std::size_t num_calls;
  };
  const std::string good = R"(<tool_call>{"name":"g","arguments":{"y":1}}</tool_call>)";
  const std::string bad = R"(<tool_call>{"name":"f","arguments":{"x": [1}}</tool_call>)";
  const std::string bad_text =
      "\n"
      R"({"name":"f","arguments":{"x": [1}})";
  const Case cases[] = {
      {good, "", 1},
      {"Hm. " + bad + bad, "Hm." + bad_text + bad_text, 0},
      {good + bad, bad_text, 1},
      {bad + "Done." + good, "Done." + bad_text, 1},
      {R"(<tool_call>{"name":"f","arguments":{"x": "a)",
       "\n"
       R"({"name":"f","arguments":{"x": "a)",
       0},
  };
  for (const Case& each : cases) {
    for (std::size_t size = 1; size <= each.text.size(); ++size) {
      const OutputDelta all = parse({.parse_tool_calls = true}, each.text, size, true);
      EXPECT_EQ(all.content, each.content) << each.text;
      ASSERT_EQ(all.calls.size(), each.num_calls) << each.text;
      EXPECT_EQ(each.num_calls == 1 ? all.calls[0].arguments : R"({"y":1})", R"({"y":1})");
    }
  }
  EXPECT_EQ(parse({.parse_tool_calls = true}, bad, 5).calls[0].arguments, R"({"x": [1}})");
}

TEST(OutputParser, MarksAreTextWithoutTools) {
  const OutputDelta all = parse({}, "<tool_call>{\"name\":\"f\"}</tool_call>", 5);
  EXPECT_EQ(all.content, "<tool_call>{\"name\":\"f\"}</tool_call>");
  EXPECT_TRUE(all.calls.empty());
  EXPECT_EQ(parse({.in_thinking = true}, "so </think> yes", 3).reasoning, "so");
}

}  // namespace
}  // namespace graft::server
