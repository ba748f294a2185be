// `graft run --batch` with the bundled model.

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "graft/base/system/temp_dir.h"
#include "graft/base/text/json.h"

#include "tests/program.h"

namespace graft::tests {
namespace {

// A line of OpenAI's batch files.
std::string request_line(const std::string& id, const std::string& url, const Json& body) {
  return Json{{"custom_id", id}, {"method", "POST"}, {"url", url}, {"body", body}}.dump() + "\n";
}

Json user_message(const std::string& text) {
  return Json::array({{{"role", "user"}, {"content", text}}});
}

std::vector<Json> lines_of(const Outcome& outcome) {
  std::istringstream in(outcome.out);
  std::vector<Json> lines;
  for (std::string line; std::getline(in, line);)
    lines.push_back(parse_json(line, "line"));
  return lines;
}

TEST(RunBatch, WritesBatchResultsInOrder) {
  const TempDir folder;
  std::ofstream batch(folder / "in.jsonl");
  for (int i = 0; i < 40; ++i)
    batch << R"({"custom_id": )" << i << R"(, "prompt": "What is )" << i << " + 3?\"}\n";
  batch << R"({"messages": [{"role": "unknown"}]})"
        << "\n";
  batch.close();
  const Outcome outcome = run_quietly(
      {"run", "--batch", folder / "in.jsonl", "--temperature", "0", "-o", folder / "out.jsonl"});
  EXPECT_EQ(outcome.exit_code, 1);  // the last request is invalid
  EXPECT_EQ(outcome.out, "");
  std::ifstream in(folder / "out.jsonl");
  std::string line;
  int number = 0;
  for (; std::getline(in, line); ++number) {
    const Json json = parse_json(line, "line");
    EXPECT_EQ(json["index"], number);
    if (number == 40) {
      EXPECT_TRUE(json["error"].get<std::string>().starts_with("messages[0]")) << line;
      continue;
    }
    EXPECT_EQ(json["custom_id"], number);
    EXPECT_TRUE(json["text"].get<std::string>().ends_with(std::to_string(number + 3))) << line;
  }
  EXPECT_EQ(number, 41);
}

TEST(RunBatch, AnswersOpenAiLinesAsTheServerDoes) {
  const Json tool = {{"type", "function"},
                     {"function",
                      {{"name", "add"},
                       {"parameters",
                        {{"type", "object"},
                         {"properties", {{"a", {{"enum", {4, 5}}}}}},
                         {"required", {"a"}},
                         {"additionalProperties", false}}}}}};
  const std::string input =
      request_line("plain", "/v1/chat/completions",
                   {{"model", "gpt-4o"}, {"messages", user_message("What is 12 + 30?")}}) +
      request_line("schema", "/v1/chat/completions",
                   {{"messages", user_message("Hello")},
                    {"response_format",
                     {{"type", "json_schema"},
                      {"json_schema", {{"name", "x"}, {"schema", {{"enum", {"a", 1}}}}}}}}}) +
      request_line(
          "tool", "/v1/chat/completions",
          {{"messages", user_message("Add.")}, {"tools", {tool}}, {"tool_choice", "required"}}) +
      request_line("logprobs", "/v1/chat/completions",
                   {{"messages", user_message("What is 1 + 2?")},
                    {"logprobs", true},
                    {"top_logprobs", 2},
                    {"n", 2},
                    {"temperature", 1},
                    {"seed", 1}}) +
      request_line("text", "/v1/completions", {{"prompt", {"One", "Two"}}, {"max_tokens", 3}}) +
      request_line("vector", "/v1/embeddings", {{"input", {"One", "Two"}}}) +
      request_line("response", "/v1/responses", {{"input", "What is 2 + 2?"}});
  const Outcome outcome = run_quietly({"run", "--batch", "-"}, input);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  const std::vector<Json> lines = lines_of(outcome);
  ASSERT_EQ(lines.size(), 7U) << outcome.out;
  std::vector<Json> bodies;
  for (const Json& line : lines) {
    EXPECT_TRUE(line["error"].is_null()) << line;
    EXPECT_EQ(line["response"]["status_code"], 200) << line;
    bodies.push_back(line["response"]["body"]);
  }
  EXPECT_EQ(lines[0]["custom_id"], "plain");
  EXPECT_EQ(bodies[0]["object"], "chat.completion");
  EXPECT_EQ(bodies[0]["model"], "sprout");
  // Greedy by default: the generation_config of the bundled model says so.
  EXPECT_EQ(bodies[0]["choices"][0]["message"]["content"], "12 + 30 = 42");
  const std::string value = bodies[1]["choices"][0]["message"]["content"];
  EXPECT_TRUE(value == "\"a\"" || value == "1") << value;
  const Json call = bodies[2]["choices"][0]["message"]["tool_calls"][0]["function"];
  EXPECT_EQ(call["name"], "add");
  EXPECT_TRUE(parse_json(call["arguments"].get<std::string>(), "call")["a"].is_number());
  EXPECT_EQ(bodies[3]["choices"].size(), 2U);
  EXPECT_EQ(bodies[3]["choices"][1]["logprobs"]["content"][0]["top_logprobs"].size(), 2U);
  EXPECT_EQ(bodies[4]["object"], "text_completion");
  EXPECT_EQ(bodies[4]["choices"].size(), 2U);
  EXPECT_EQ(bodies[5]["data"].size(), 2U);
  EXPECT_GT(bodies[5]["data"][0]["embedding"].size(), 100U);
  EXPECT_EQ(bodies[6]["object"], "response");
}

TEST(RunBatch, InvalidLinesHaveErrorsAndTheOthersAreAnswered) {
  const std::string input =
      "not JSON\n" +
      request_line("temperature", "/v1/chat/completions",
                   {{"messages", user_message("a")}, {"temperature", "hot"}}) +
      request_line("field", "/v1/completions", {{"prompt", "a"}, {"colour", "red"}}) +
      request_line("url", "/v1/images", Json::object()) + "{\"prompt\": \"What is 1 + 2?\"}\n";
  const Outcome outcome = run_quietly({"run", "--batch", "-"}, input);
  EXPECT_EQ(outcome.exit_code, 1) << outcome.err;
  const std::vector<Json> lines = lines_of(outcome);
  ASSERT_EQ(lines.size(), 5U) << outcome.out;
  EXPECT_TRUE(lines[0]["error"].get<std::string>().starts_with("line 1")) << outcome.out;
  EXPECT_EQ(lines[1]["custom_id"], "temperature");
  EXPECT_EQ(lines[1]["response"]["status_code"], 400);
  EXPECT_EQ(lines[1]["response"]["body"]["error"]["param"], "temperature");
  EXPECT_EQ(lines[1]["error"]["message"], lines[1]["response"]["body"]["error"]["message"]);
  EXPECT_NE(lines[2]["error"]["message"].get<std::string>().find("colour"), std::string::npos);
  EXPECT_TRUE(lines[3]["response"].is_null());
  EXPECT_TRUE(lines[3]["error"]["message"].get<std::string>().starts_with("line 4: \"url\""));
  EXPECT_TRUE(lines[4]["text"].get<std::string>().ends_with("3")) << outcome.out;
}

TEST(RunBatch, FlagsApplyToLinesThatLeaveThemOut) {
  const Outcome outcome = run_quietly(
      {"run", "--batch", "-", "--regex", "y(es)", "-n", "8"},
      request_line("a", "/v1/chat/completions", {{"messages", user_message("Hello")}}) +
          request_line(
              "b", "/v1/chat/completions",
              {{"messages", user_message("Hello")}, {"structured_outputs", {{"choice", {"no"}}}}}) +
          "{\"prompt\": \"Hello\"}\n");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  const std::vector<Json> lines = lines_of(outcome);
  ASSERT_EQ(lines.size(), 3U) << outcome.out;
  const auto content = [&](std::size_t i) {
    return lines[i]["response"]["body"]["choices"][0]["message"]["content"];
  };
  EXPECT_EQ(content(0), "yes");
  EXPECT_EQ(content(1), "no");
  EXPECT_EQ(lines[2]["text"], "yes");
}

}  // namespace
}  // namespace graft::tests
