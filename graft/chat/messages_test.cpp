#include "graft/chat/messages.h"

#include <gtest/gtest.h>

#include "graft/base/error.h"

namespace graft::chat {
namespace {

template <class Function>
std::string check_error(Function function, const std::string& json) {
  try {
    function(parse_ordered_json(json, "test"));
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Messages, AcceptsValidMessages) {
  EXPECT_EQ(check_error(check_messages, R"([
      {"role": "system", "content": "Be kind."},
      {"role": "user", "content": [{"type": "text", "text": "Hi"}, {"type": "text", "text": ""}]},
      {"role": "assistant", "content": null, "reasoning_content": "hm", "tool_calls": [
        {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}},
        {"function": {"name": "g", "arguments": {"a": 1}}}]},
      {"role": "tool", "tool_call_id": "1", "content": ""},
      {"role": "assistant"}])"),
            "");
}

TEST(Messages, ErrorsIncludeThePath) {
  const auto expect = [](const char* json, const std::string& error) {
    EXPECT_EQ(check_error(check_messages, json), error);
  };
  expect("{}", "messages: must be a list, not object");
  expect("[]", "messages: must not be empty");
  expect("[1]", "messages[0]: must be an object, not number");
  expect(R"([{"content": "x"}])", "messages[0].role: is missing");
  expect(R"([{"role": "<|x|>", "content": "x"}])", "messages[0].role: '<|x|>' is not a valid role");
  expect(R"([{"role": "user", "content": "x"}, {"role": "user"}])",
         "messages[1].content: is missing");
  expect(R"([{"role": "user", "content": 5}])",
         "messages[0].content: must be text or a list of parts, not number");
  expect(R"([{"role": "user", "content": [{"type": "text"}]}])",
         "messages[0].content[0].text: is missing");
  expect(R"([{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}])",
         "messages[0].content[0].image_url.url: is missing");
  expect(
      R"([{"role": "user", "content": [{"type": "input_audio"}]}])",
      "messages[0].content[0].type: 'input_audio' is not supported, only 'text' and 'image_url'");
  expect(R"([{"role": "user", "content": "x", "images": ["eA=="]}])",
         "messages[0].images: images are not supported");
  expect(R"([{"role": "user", "content": ["x"]}])",
         "messages[0].content[0]: must be an object, not string");
  expect(R"([{"role": "user", "content": "x", "tool_calls": []}])",
         "messages[0].tool_calls: only assistant messages may have tool calls, not user");
  expect(R"([{"role": "assistant", "tool_calls": [{"function": {"arguments": {}}}]}])",
         "messages[0].tool_calls[0].function.name: is missing");
  expect(R"([{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": []}}]}])",
         "messages[0].tool_calls[0].function.arguments: must be an object or its JSON text, not "
         "array");
  expect(R"([{"role": "assistant", "content": "", "reasoning": 1}])",
         "messages[0].reasoning: must be text, not number");
}

TEST(Messages, ChecksTools) {
  EXPECT_EQ(check_error(check_tools, "null"), "");
  EXPECT_EQ(check_error(check_tools, R"([{"type": "function", "function": {"name": "f"}}])"), "");
  EXPECT_EQ(check_error(check_tools, R"([{"type": "code"}])"),
            "tools[0].type: 'code' is not supported, only 'function' is");
  EXPECT_EQ(check_error(check_tools,
                        R"([{"type": "function", "function": {"name": "f", "parameters": 1}}])"),
            "tools[0].function.parameters: must be an object, not number");
}

TEST(Messages, FlattensTextParts) {
  const OrderedJson flat = flatten_content(parse_ordered_json(
      R"([{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
          {"role": "assistant", "content": null}, {"role": "user", "content": "c"}])",
      "test"));
  EXPECT_EQ(flat[0]["content"], "a\nb");
  EXPECT_TRUE(flat[1]["content"].is_null());
  EXPECT_EQ(flat[2]["content"], "c");
}

TEST(Messages, OfHarmonyHaveThinkingAndNoEmptyContent) {
  const OrderedJson messages = harmony_messages(parse_ordered_json(
      R"([{"role": "user", "content": "a"},
          {"role": "assistant", "content": null, "reasoning_content": "r", "tool_calls": []},
          {"role": "assistant", "content": "c", "reasoning_content": "r", "tool_calls": []},
          {"role": "assistant", "content": "c", "reasoning_content": "r"}])",
      "test"));
  EXPECT_EQ(messages[0], parse_ordered_json(R"({"role": "user", "content": "a"})", "test"));
  EXPECT_FALSE(messages[1].contains("content"));
  EXPECT_EQ(messages[1]["thinking"], "r");
  EXPECT_FALSE(messages[2].contains("thinking"));
  EXPECT_EQ(messages[3]["thinking"], "r");
  EXPECT_EQ(messages[3]["content"], "c");
}

TEST(Messages, ParsesToolArguments) {
  const OrderedJson parsed = parse_tool_arguments(parse_ordered_json(
      R"([{"role": "assistant", "tool_calls": [
          {"function": {"name": "f", "arguments": "{\"b\": 1, \"a\": [2]}"}},
          {"function": {"name": "f", "arguments": {"x": 1}}},
          {"function": {"name": "f", "arguments": ""}},
          {"function": {"name": "f"}}]}])",
      "test"));
  const auto arguments = [&](std::size_t i) {
    return parsed[0]["tool_calls"][i]["function"]["arguments"].dump();
  };
  EXPECT_EQ(arguments(0), R"({"b":1,"a":[2]})");
  EXPECT_EQ(arguments(1), R"({"x":1})");
  EXPECT_EQ(arguments(2), "{}");
  EXPECT_EQ(arguments(3), "{}");
  const std::string bad = R"([{"role": "assistant", "tool_calls": [
      {"function": {"name": "f", "arguments": "{x"}}]}])";
  EXPECT_NE(check_error(parse_tool_arguments, bad)
                .find("messages[0].tool_calls[0].function.arguments: not valid JSON"),
            std::string::npos);
}

TEST(Messages, TakesImagesInOrder) {
  OrderedJson messages = OrderedJson::parse(R"([
      {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:a"}},
                                   {"type": "text", "text": "x"}]},
      {"role": "assistant", "content": "y"},
      {"role": "user", "content": [{"type": "image_url", "image_url": "data:b"}]}])");
  check_messages(messages);
  const std::vector<ImagePart> images = take_images(messages);
  ASSERT_EQ(images.size(), 2U);
  EXPECT_EQ(images[0].where, "messages[0].content[0]");
  EXPECT_EQ(images[0].url, "data:a");
  EXPECT_EQ(images[1].url, "data:b");
  EXPECT_EQ(messages[0]["content"][0], OrderedJson({{"type", "image"}}));
  EXPECT_EQ(flatten_content(write_images(messages, "<I>"))[0]["content"], "<I>\nx");
  EXPECT_EQ(wrap_texts(messages)[1]["content"][0]["text"], "y");
}

}  // namespace
}  // namespace graft::chat
