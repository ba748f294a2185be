#include "graft/server/generation/output_parser.h"

#include <string>
#include <string_view>

#include <gtest/gtest.h>

namespace graft::server {
namespace {

constexpr const char* kAnswer =
    "<think>\nI need f.\n</think>\n\nOne moment.\n<tool_call>{\"name\":\"f\"}</tool_call>"
    "<tool_call>{\"name\":\"g\"}</tool_call>";

OutputDelta parse(const OutputFormat& format, std::string_view text, std::size_t size) {
  OutputParser parser(format);
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

TEST(OutputParser, MarksAreTextWithoutTools) {
  const OutputDelta all = parse({}, "<tool_call>{\"name\":\"f\"}</tool_call>", 5);
  EXPECT_EQ(all.content, "<tool_call>{\"name\":\"f\"}</tool_call>");
  EXPECT_TRUE(all.calls.empty());
  EXPECT_EQ(parse({.in_thinking = true}, "so </think> yes", 3).reasoning, "so");
}

}  // namespace
}  // namespace graft::server
