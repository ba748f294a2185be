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
  defaults.fields = {{"temperature", 0.25},
                     {"max_tokens", 9},
                     {"enable_thinking", false},
                     {"structured_outputs", {{"regex", "x"}}}};
  return parse_batch(text, "batch.jsonl", defaults);
}

std::string error_of_line(const std::string& text) {
  return parse(text).back().error;
}

TEST(BatchLines, ReadPromptsAndMessages) {
  const auto lines = parse(
      "{\"prompt\": \"Hi\", \"max_tokens\": 5, \"stop\": \"x\"}\n\n"
      "{\"custom_id\": \"b\", \"messages\": [{\"role\": \"user\", \"content\": \"Yo\"}], "
      "\"temperature\": 1, \"seed\": 3, \"frequency_penalty\": 0.5, \"stop\": [\"a\", \"b\"]}\n"
      "{\"messages\": [{\"role\": \"system\", \"content\": \"Rhyme.\"}]}");
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_EQ(lines[0].prompt, "Hi");
  EXPECT_EQ(lines[0].conversation.messages.size(), 2U);  // the system prompt
  EXPECT_EQ(lines[0].params.max_tokens, 5);
  EXPECT_EQ(lines[0].params.temperature, 0.25);
  EXPECT_EQ(lines[0].params.stop, std::vector<std::string>{"x"});
  EXPECT_FALSE(lines[0].is_openai);
  EXPECT_EQ(lines[1].id, "b");
  EXPECT_EQ(lines[1].conversation.messages.size(), 2U);
  EXPECT_EQ(lines[1].params.temperature, 1);
  EXPECT_EQ(lines[1].params.frequency_penalty, 0.5);
  EXPECT_EQ(lines[1].params.seed, 3U);
  EXPECT_EQ(lines[1].params.stop.size(), 2U);
  EXPECT_EQ(lines[2].conversation.messages.size(), 1U);  // it has its own
  EXPECT_TRUE(parse("{\"prompt\": \"Hi\"}", true)[0].raw);
}

TEST(BatchLines, ReadOpenAiFormat) {
  const auto lines = parse(
      R"({"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": )"
      R"({"model": "gpt", "messages": [{"role": "user", "content": "Yo"}], "temperature": 1, )"
      R"("max_completion_tokens": 3, "response_format": {"type": "json_object"}}})"
      "\n"
      R"({"url": "/v1/completions", "body": {"prompt": "Once", "n": 2}})"
      "\n"
      R"({"body": {"input": "Once"}})"
      "\n"
      R"({"body": {"messages": []}})");
  ASSERT_EQ(lines.size(), 4U);
  for (const BatchLine& line : lines)
    EXPECT_TRUE(line.is_openai && line.error.empty()) << line.error;
  EXPECT_EQ(lines[0].id, "a");
  EXPECT_EQ(lines[0].url, "/v1/chat/completions");
  // The fields of the flags, except those that the body has under some name, and no model.
  EXPECT_EQ(lines[0].body,
            OrderedJson::parse(
                R"({"messages": [{"role": "system", "content": "Be brief."}, )"
                R"({"role": "user", "content": "Yo"}], "temperature": 1, )"
                R"("max_completion_tokens": 3, "response_format": {"type": "json_object"}, )"
                R"("enable_thinking": false})"));
  EXPECT_EQ(lines[1].body,
            OrderedJson::parse(R"({"prompt": "Once", "n": 2, "temperature": 0.25, )"
                               R"("max_tokens": 9, "structured_outputs": {"regex": "x"}})"));
  EXPECT_EQ(lines[2].url, "/v1/embeddings");
  EXPECT_EQ(lines[2].body, OrderedJson::parse(R"({"input": "Once"})"));
  EXPECT_EQ(lines[3].url, "/v1/chat/completions");
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
  EXPECT_EQ(error_of_line(R"({"url": "/v1/images", "body": {}})"),
            "line 1: \"url\" is \"/v1/images\", expected /v1/chat/completions, /v1/completions, "
            "/v1/responses, /v1/embeddings, /v1/rerank or /v1/score");
  EXPECT_EQ(error_of_line(R"({"method": "GET", "body": {}})"),
            "line 1: \"method\" is \"GET\", expected POST");
  EXPECT_EQ(error_of_line(R"({"body": 5})"), "line 1: \"body\": expected an object, got number");
  EXPECT_EQ(error_of_line(R"({"body": {"prompt": "a", "stream": true}})"),
            "line 1: \"stream\" must be false");
  EXPECT_TRUE(error_of_line("{\"prompt\": ").starts_with("line 1"));
  EXPECT_EQ(parse("{\"custom_id\": 7, \"prompt\": 5}")[0].id, 7);
  EXPECT_THROW(parse(" \n"), Error);
}

}  // namespace
}  // namespace graft::cli
