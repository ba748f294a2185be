// Structured output over HTTP, in the spellings of several APIs.

#include <string>

#include <gtest/gtest.h>

#include "graft/base/text/json.h"

#include "tests/program.h"
#include "tests/server/server_process.h"

namespace graft::tests {
namespace {

const Json kAnswerSchema = {{"type", "object"},
                            {"properties",
                             {{"answer", {{"type", "integer"}, {"minimum", 0}, {"maximum", 99}}},
                              {"unit", {{"enum", {"cm", "m"}}}}}},
                            {"required", {"answer", "unit"}},
                            {"additionalProperties", false}};

Json structured_body(const Json& more) {
  Json body = {{"model", "sprout"},
               {"messages", {{{"role", "user"}, {"content", "Find the sum of 62 and 1."}}}},
               {"temperature", 0},
               {"max_tokens", 60}};
  body.update(more);
  return body;
}

void expect_answer(const std::string& text) {
  const Json answer = parse_json(text, "answer");
  EXPECT_EQ(answer.size(), 2U) << text;
  EXPECT_LE(answer.at("answer").get<int>(), 99) << text;
  EXPECT_TRUE(answer.at("unit") == "cm" || answer.at("unit") == "m") << text;
}

std::string content_of(const Reply& reply) {
  EXPECT_EQ(reply.status, 200) << reply.body;
  const Json choice = reply.json()["choices"][0];
  EXPECT_EQ(choice["finish_reason"], "stop") << reply.body;
  return choice["message"]["content"].get<std::string>();
}

TEST(ServerStructuredOutput, AnswersMatch) {
  const ServerProcess server;
  ASSERT_NE(server.port(), 0) << server.first_line();
  const auto chat = [&](const Json& more) {
    return post(server, "/v1/chat/completions", structured_body(more));
  };
  expect_answer(content_of(
      chat({{"response_format",
             {{"type", "json_schema"},
              {"json_schema", {{"name", "a"}, {"strict", true}, {"schema", kAnswerSchema}}}}}})));
  expect_answer(content_of(chat({{"structured_outputs", {{"json", kAnswerSchema}}}})));
  EXPECT_EQ(content_of(chat({{"guided_regex", "x{3}"}})), "xxx");
  EXPECT_EQ(content_of(chat({{"guided_choice", {"only this"}}})), "only this");
  EXPECT_EQ(content_of(chat({{"grammar", "root ::= \"a\" b\nb ::= \"b\"\n"}})), "ab");
  Json ollama_body = structured_body({{"format", kAnswerSchema}, {"stream", false}});
  ollama_body["options"] = {{"temperature", 0}, {"num_predict", 60}};
  ollama_body.erase("temperature");
  ollama_body.erase("max_tokens");
  const Reply ollama = post(server, "/api/chat", ollama_body);
  ASSERT_EQ(ollama.status, 200) << ollama.body;
  expect_answer(ollama.json()["message"]["content"].get<std::string>());

  const Json error = chat({{"guided_json", {{"items", {{"frobnicate", 1}}}}}}).json()["error"];
  EXPECT_EQ(error["param"], "guided_json");
  EXPECT_NE(error["message"].get<std::string>().find("#/items/frobnicate"), std::string::npos);
  const Reply cut = chat({{"guided_regex", "x{300}"}, {"max_tokens", 2}});
  EXPECT_EQ(cut.json()["choices"][0]["finish_reason"], "length") << cut.body;
}

}  // namespace
}  // namespace graft::tests
