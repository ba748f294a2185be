// vLLM's fields of graft serve over sockets: prompt_logprobs, bad_words; and OpenAI's logit_bias.

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/server/server_process.h"

namespace graft::tests {
namespace {

constexpr const char* kCompletions = "/v1/completions";
constexpr const char* kAnswer = "62 + 1 = 63";

std::string content_of(const Json& response) {
  return response["choices"][0]["message"]["content"].get<std::string>();
}

Json sum_body(const Json& more = Json::object()) {
  Json body = {{"messages", {{{"role", "user"}, {"content", "Find the sum of 62 and 1."}}}},
               {"temperature", 0},
               {"max_tokens", 16}};
  body.update(more);
  return body;
}

Json tokens_of(const ServerProcess& server, const std::string& text) {
  return post(server, "/tokenize", {{"prompt", text}, {"add_special_tokens", false}})
      .json()["tokens"];
}

// The first token has no logprob; each other one has its own and the two most likely ones.
TEST(VllmFields, PromptLogprobsOfCompletions) {
  const ServerProcess server;
  const Json body = {{"prompt", "Once upon a time"}, {"max_tokens", 1}, {"temperature", 0},
                     {"prompt_logprobs", 2},         {"logprobs", 1},   {"echo", true}};
  const Reply reply = post(server, kCompletions, body);
  ASSERT_EQ(reply.status, 200) << reply.body;
  const Json choice = reply.json()["choices"][0];
  const Json& list = choice["prompt_logprobs"];
  const Json tokens = post(server, "/tokenize", {{"prompt", "Once upon a time"}}).json()["tokens"];
  ASSERT_EQ(list.size(), tokens.size()) << list;
  EXPECT_TRUE(list[0].is_null());
  for (std::size_t i = 1; i < list.size(); ++i) {
    const Json& own = list[i][std::to_string(tokens[i].get<int>())];
    ASSERT_TRUE(own.is_object()) << list[i];
    EXPECT_GE(own["rank"], 1);
    EXPECT_EQ(own["logprob"], choice["logprobs"]["token_logprobs"][i]) << "as of echo";
    EXPECT_EQ(own["decoded_token"], choice["logprobs"]["tokens"][i]);
    EXPECT_EQ(list[i].size(), own["rank"] <= 2 ? 2U : 3U) << list[i];
    EXPECT_EQ(choice["logprobs"]["top_logprobs"][i].size(), 1U) << "logprobs has its own count";
  }
}

TEST(VllmFields, PromptLogprobsOfChats) {
  const ServerProcess server;
  const Json json = post(server, kChat, sum_body({{"prompt_logprobs", 0}, {"n", 2}})).json();
  ASSERT_EQ(json["prompt_logprobs"].size(), json["usage"]["prompt_tokens"]) << json;
  EXPECT_TRUE(json["prompt_logprobs"][0].is_null());
  EXPECT_EQ(json["prompt_logprobs"][1].size(), 1U) << "the token alone";
  EXPECT_EQ(content_of(json), kAnswer);
  EXPECT_FALSE(post(server, kChat, sum_body()).json().contains("prompt_logprobs"));
  const Reply stream = post(server, kChat, sum_body({{"prompt_logprobs", 1}, {"stream", true}}));
  EXPECT_EQ(stream.status, 400);
  EXPECT_EQ(stream.json()["error"]["param"], "prompt_logprobs");
}

TEST(VllmFields, BadWordsDoNotAppear) {
  const ServerProcess server;
  EXPECT_EQ(content_of(post(server, kChat, sum_body()).json()), kAnswer);
  for (const char* word : {"63", " 63", "+", "1 = 6"}) {
    const Json json = post(server, kChat, sum_body({{"bad_words", {"never", word}}})).json();
    EXPECT_EQ(content_of(json).find(std::string(word)), std::string::npos) << json;
  }
  const Json responses = post(server, "/v1/responses",
                              {{"input", "Find the sum of 62 and 1."},
                               {"temperature", 0},
                               {"max_output_tokens", 16},
                               {"bad_words", {"63"}}})
                             .json();
  const Json text = responses["output"][0]["content"][0]["text"];
  EXPECT_EQ(text.get<std::string>().find("63"), std::string::npos) << responses;
  EXPECT_EQ(post(server, kChat, sum_body({{"bad_words", {""}}})).status, 400);
}

TEST(VllmFields, LogitBiasForcesAndForbidsTokens) {
  const ServerProcess server;
  const Json token = tokens_of(server, "7")[0];
  const std::string id = std::to_string(token.get<int>());
  const Json forced =
      post(server, kChat, sum_body({{"logit_bias", {{id, 100}}}, {"max_tokens", 3}})).json();
  EXPECT_EQ(content_of(forced), "777") << forced;
  const std::string six = std::to_string(tokens_of(server, "6")[0].get<int>());
  const Json forbidden = post(server, kChat, sum_body({{"logit_bias", {{six, -100}}}})).json();
  EXPECT_NE(content_of(forbidden), kAnswer);
  const Reply unknown = post(server, kChat, sum_body({{"logit_bias", {{"99999999", 1}}}}));
  EXPECT_EQ(unknown.status, 400) << unknown.body;
  EXPECT_NE(unknown.body.find("logit_bias"), std::string::npos);
}

// In every API the tokens with logprobs spell the text: the end token is left out.
TEST(VllmFields, LogprobsSpellTheText) {
  const ServerProcess server;
  const auto joined = [](const Json& list, const char* name) {
    std::string text;
    for (const Json& token : list)
      text += name == nullptr ? token.get<std::string>() : token[name].get<std::string>();
    return text;
  };
  for (const bool is_stream : {false, true}) {
    const Reply reply = post(server, kChat, sum_body({{"logprobs", true}, {"stream", is_stream}}));
    std::string text;
    for (const Json& json : is_stream ? events(reply.body) : std::vector<Json>{reply.json()}) {
      if (!json.is_object()) continue;  // [DONE]
      const Json& choice = json["choices"][0];
      if (choice["logprobs"].is_object()) text += joined(choice["logprobs"]["content"], "token");
    }
    EXPECT_EQ(text, kAnswer) << reply.body;
  }
  const Json chat = post(server, kChat, sum_body({{"logprobs", true}})).json();
  EXPECT_EQ(chat["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(chat["choices"][0]["logprobs"]["content"].size() + 1,
            chat["usage"]["completion_tokens"])
      << "the end token is counted";
  const std::string prompt =
      post(server, "/apply-template", sum_body()).json()["prompt"].get<std::string>();
  const Json body = {{"prompt", prompt}, {"temperature", 0}, {"max_tokens", 16}, {"logprobs", 0}};
  const Json completion = post(server, kCompletions, body).json()["choices"][0];
  EXPECT_EQ(joined(completion["logprobs"]["tokens"], nullptr), kAnswer) << completion;
  const Json response = post(server, "/v1/responses",
                             {{"input", "Find the sum of 62 and 1."},
                              {"temperature", 0},
                              {"include", {"message.output_text.logprobs"}}})
                            .json();
  EXPECT_EQ(joined(response["output"][0]["content"][0]["logprobs"], "token"), kAnswer) << response;
  const Json ollama = post(server, "/api/chat",
                           {{"model", "sprout"},
                            {"messages", sum_body()["messages"]},
                            {"logprobs", true},
                            {"stream", false},
                            {"options", {{"temperature", 0}}}})
                          .json();
  EXPECT_EQ(joined(ollama["logprobs"], "token"), kAnswer) << ollama;
}

}  // namespace
}  // namespace graft::tests
