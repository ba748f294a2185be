#include "graft/cli/run/batch_lines.h"

#include <gtest/gtest.h>

#include "graft/base/error.h"

namespace graft::cli {
namespace {

std::vector<BatchLine> parse(const std::string& text, bool raw = false) {
  BatchDefaults defaults;
  defaults.params.temperature = 0.25;
  defaults.system = "Be brief.";
  defaults.raw = raw;
  return parse_batch(text, "batch.jsonl", defaults);
}

std::string error_of_line(const std::string& text) {
  return parse(text).back().error;
}

TEST(BatchLines, ReadPromptsMessagesAndOpenAiFormat) {
  const auto lines = parse(
      "{\"prompt\": \"Hi\", \"max_tokens\": 5, \"stop\": \"x\"}\n\n"
      "{\"custom_id\": \"b\", \"method\": \"POST\", \"url\": \"/v1/chat/completions\", \"body\": "
      "{\"model\": \"m\", \"messages\": [{\"role\": \"user\", \"content\": \"Yo\"}], "
      "\"temperature\": 1, \"seed\": 3, \"frequency_penalty\": 0.5, \"stop\": [\"a\", \"b\"]}}\n"
      "{\"url\": \"/v1/completions\", \"body\": {\"prompt\": \"Once\"}}");
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_EQ(lines[0].prompt, "Hi");
  EXPECT_EQ(lines[0].conversation.messages.size(), 2U);  // the system prompt
  EXPECT_EQ(lines[0].params.max_tokens, 5);
  EXPECT_EQ(lines[0].params.temperature, 0.25);
  EXPECT_EQ(lines[0].params.stop, std::vector<std::string>{"x"});
  EXPECT_FALSE(lines[0].is_openai);
  EXPECT_EQ(lines[1].id, "b");
  EXPECT_EQ(lines[1].conversation.messages.size(), 1U);
  EXPECT_EQ(lines[1].params.temperature, 1);
  EXPECT_EQ(lines[1].params.frequency_penalty, 0.5);
  EXPECT_EQ(lines[1].params.seed, 3U);
  EXPECT_EQ(lines[1].params.stop.size(), 2U);
  EXPECT_TRUE(lines[1].is_openai && !lines[1].raw);
  EXPECT_TRUE(lines[2].is_openai && lines[2].raw);
  EXPECT_TRUE(parse("{\"prompt\": \"Hi\"}", true)[0].raw);
}

TEST(BatchLines, InvalidOnesHaveAnErrorAndTheOthersStay) {
  const auto lines = parse("{\"prompt\": \"a\"}\n\n[1]\n{\"prompt\": \"b\"}");
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_EQ(lines[0].error, "");
  EXPECT_EQ(lines[1].error, "line 3: expected an object, got array");
  EXPECT_EQ(lines[2].error, "");
  EXPECT_EQ(error_of_line("{}"), "line 1: expected either \"prompt\" or \"messages\"");
  EXPECT_EQ(error_of_line("{\"prompt\": \"a\", \"colour\": 1}"), "line 1: unknown key \"colour\"");
  EXPECT_EQ(error_of_line("{\"prompt\": \"a\", \"n\": 2}"), "line 1: \"n\" must be 1");
  EXPECT_EQ(error_of_line("{\"prompt\": 5}"), "line 1: \"prompt\": expected a string, got number");
  EXPECT_EQ(error_of_line("{\"prompt\": \"a\", \"seed\": \"x\"}"),
            "line 1: \"seed\": expected an integer, got string");
  EXPECT_EQ(error_of_line("{\"prompt\": \"a\", \"temperature\": \"hot\"}"),
            "line 1: \"temperature\": expected a number, got string");
  EXPECT_EQ(error_of_line("{\"url\": \"/v1/embeddings\", \"body\": {}}"),
            "line 1: \"url\" is \"/v1/embeddings\", expected /v1/chat/completions or "
            "/v1/completions");
  EXPECT_TRUE(error_of_line("{\"prompt\": ").starts_with("line 1"));
  EXPECT_EQ(parse("{\"custom_id\": 7, \"prompt\": 5}")[0].id, 7);
  EXPECT_THROW(parse(" \n"), Error);
}

}  // namespace
}  // namespace graft::cli
