// llama.cpp's /completion as its clients use it, over HTTP. The bundled model has no tokens for
// /infill; llamacpp/llamacpp_test.cpp reads such requests.

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "graft/base/text/json.h"

#include "tests/server/server_process.h"

namespace graft::tests {
namespace {

Json complete(const ServerProcess& server, const Json& body) {
  const Reply reply = post(server, "/completion", body);
  EXPECT_EQ(reply.status, 200) << reply.body;
  return reply.json();
}

// What llama.vim sends beside the texts, first to fill the cache and then for a suggestion.
TEST(LlamaCppServer, ServesAnEditor) {
  const ServerProcess server;
  const std::string prompt = "Once upon a time there was a fox who lived in a forest near the sea.";
  const Json fill = {{"id_slot", 0},           {"prompt", prompt},          {"n_predict", 0},
                     {"temperature", 0.0},     {"samplers", Json::array()}, {"stream", false},
                     {"cache_prompt", true},   {"t_max_prompt_ms", 1},      {"t_max_predict_ms", 1},
                     {"response_fields", {""}}};
  EXPECT_EQ(complete(server, fill), Json::object());
  Json suggest = {
      {"id_slot", 0},
      {"prompt", prompt},
      {"n_predict", 12},
      {"n_indent", 4},
      {"top_k", 40},
      {"top_p", 0.9},
      {"samplers", {"top_k", "top_p", "infill"}},
      {"t_max_prompt_ms", 500},
      {"t_max_predict_ms", 1000},
      {"response_fields",
       {"content", "timings/prompt_n", "timings/predicted_n", "truncated", "tokens_cached"}}};
  const Json reply = complete(server, suggest);
  EXPECT_EQ(reply.size(), 5U) << reply;
  EXPECT_FALSE(reply["truncated"]);
  EXPECT_GT(reply["tokens_cached"], 0) << "the first request filled the cache";
  EXPECT_LE(reply["timings/predicted_n"], 12);
  suggest["samplers"] = {"top_k", "tail_free"};
  const Reply refused = post(server, "/completion", suggest);
  EXPECT_EQ(refused.status, 400);
  EXPECT_NE(refused.body.find("samplers: 'tail_free' is not supported"), std::string::npos)
      << refused.body;
}

TEST(LlamaCppServer, EndsAtLines) {
  const ServerProcess server;
  Json body = {{"prompt", "Lines:"},
               {"temperature", 0},
               {"n_predict", 200},
               {"grammar", R"(root ::= "a\n  b\n" "c\n  d\n")"}};
  EXPECT_EQ(complete(server, body)["content"], "a\n  b\nc\n  d\n");
  body["n_indent"] = 2;
  const Json indented = complete(server, body);
  EXPECT_EQ(indented["content"], "a\n  b\n");
  EXPECT_EQ(indented["stop_type"], "limit");
  body["stream"] = true;
  std::string streamed;
  for (const Json& event : events(post(server, "/completion", body).body))
    streamed += event["content"].get<std::string>();
  EXPECT_EQ(streamed, "a\n  b\n");

  const Json lines = {{"prompt", "Lines:"},
                      {"temperature", 0},
                      {"n_predict", 200},
                      {"t_max_predict_ms", 1},
                      {"grammar", R"(root ::= ([a-z]{5,40} "\n"){100})"}};
  const Json timed = complete(server, lines);
  const std::string content = timed["content"];
  EXPECT_EQ(content.find('\n'), content.size() - 1) << content;
  EXPECT_EQ(timed["stop_type"], "limit");
}

}  // namespace
}  // namespace graft::tests
