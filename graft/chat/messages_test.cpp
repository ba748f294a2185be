#include "graft/chat/messages.h"

#include <gtest/gtest.h>

#include "graft/base/error.h"

namespace graft::chat {
namespace {

template <class Function>
std::string error_of(Function function, const std::string& json) {
  try {
    function(parse_ordered_json(json, "test"));
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Messages, AcceptsWhatClientsSend) {
  EXPECT_EQ(error_of(check_messages, R"([
      {"role": "system", "content": "Be kind."},
      {"role": "user", "content": [{"type": "text", "text": "Hi"}, {"type": "image_url", "image_url": {}}]},
      {"role": "assistant", "content": null, "reasoning_content": "hm", "tool_calls": [
        {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}},
        {"function": {"name": "g", "arguments": {"a": 1}}}]},
      {"role": "tool", "tool_call_id": "1", "content": ""},
      {"role": "assistant"}])"),
            "");
}

TEST(Messages, ErrorsNameThePlace) {
  const auto expect = [](const char* json, const std::string& error) {
    EXPECT_EQ(error_of(check_messages, json), error);
  };
  expect("{}", "messages: a list is needed, not object");
  expect("[]", "messages: at least one is needed");
  expect("[1]", "messages[0]: an object is needed, not number");
  expect(R"([{"content": "x"}])", "messages[0].role: is missing");
  expect(R"([{"role": "<|x|>", "content": "x"}])",
         "messages[0].role: '<|x|>' is no role (a word like user)");
  expect(R"([{"role": "user", "content": "x"}, {"role": "user"}])",
         "messages[1].content: is missing");
  expect(R"([{"role": "user", "content": 5}])",
         "messages[0].content: text or a list of parts is needed, not number");
  expect(R"([{"role": "user", "content": [{"type": "text"}]}])",
         "messages[0].content[0].text: is missing");
  expect(R"([{"role": "user", "content": ["x"]}])",
         "messages[0].content[0]: an object is needed, not string");
  expect(R"([{"role": "user", "content": "x", "tool_calls": []}])",
         "messages[0].tool_calls: only the assistant calls tools, not user");
  expect(R"([{"role": "assistant", "tool_calls": [{"function": {"arguments": {}}}]}])",
         "messages[0].tool_calls[0].function.name: is missing");
  expect(R"([{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": []}}]}])",
         "messages[0].tool_calls[0].function.arguments: an object or its JSON text is needed, not "
         "array");
  expect(R"([{"role": "assistant", "content": "", "reasoning": 1}])",
         "messages[0].reasoning: text is needed, not number");
}

TEST(Messages, ChecksTools) {
  EXPECT_EQ(error_of(check_tools, "null"), "");
  EXPECT_EQ(error_of(check_tools, R"([{"type": "function", "function": {"name": "f"}}])"), "");
  EXPECT_EQ(error_of(check_tools, R"([{"type": "code"}])"),
            "tools[0].type: 'code', only function is known");
  EXPECT_EQ(error_of(check_tools,
                     R"([{"type": "function", "function": {"name": "f", "parameters": 1}}])"),
            "tools[0].function.parameters: an object is needed, not number");
}

TEST(Messages, FlattensTextParts) {
  const OrderedJson flat = flatten_content(parse_ordered_json(
      R"([{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
          {"role": "assistant", "content": null}, {"role": "user", "content": "c"}])",
      "test"));
  EXPECT_EQ(flat[0]["content"], "a\nb");
  EXPECT_TRUE(flat[1]["content"].is_null());
  EXPECT_EQ(flat[2]["content"], "c");
  EXPECT_EQ(error_of(flatten_content, R"([{"role": "user", "content": [{"type": "image"}]}])"),
            "messages[0].content[0]: the template of this model reads text only, not image");
}

TEST(Messages, ReadsToolArguments) {
  const OrderedJson read = parse_tool_arguments(parse_ordered_json(
      R"([{"role": "assistant", "tool_calls": [
          {"function": {"name": "f", "arguments": "{\"b\": 1, \"a\": [2]}"}},
          {"function": {"name": "f", "arguments": {"x": 1}}},
          {"function": {"name": "f", "arguments": ""}},
          {"function": {"name": "f"}}]}])",
      "test"));
  const auto arguments = [&](std::size_t i) {
    return read[0]["tool_calls"][i]["function"]["arguments"].dump();
  };
  EXPECT_EQ(arguments(0), R"({"b":1,"a":[2]})");
  EXPECT_EQ(arguments(1), R"({"x":1})");
  EXPECT_EQ(arguments(2), "{}");
  EXPECT_EQ(arguments(3), "{}");
  const std::string bad = R"([{"role": "assistant", "tool_calls": [
      {"function": {"name": "f", "arguments": "{x"}}]}])";
  EXPECT_NE(error_of(parse_tool_arguments, bad)
                .find("messages[0].tool_calls[0].function.arguments: not valid JSON"),
            std::string::npos);
}

}  // namespace
}  // namespace graft::chat
