// Speculation of graft serve over sockets: the same text, fewer events, counts.

#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/server/server_process.h"

namespace graft::tests {
namespace {

// The answer repeats the prompt.
Json repeating_body(const Json& more = Json::object()) {
  Json body = {
      {"prompt", "one two three four five six seven, one two three four five six seven, one"},
      {"temperature", 0},
      {"max_tokens", 40},
      {"ignore_eos", true}};
  body.update(more);
  return body;
}

std::string text_of(const Json& response) {
  return response["choices"][0]["text"].get<std::string>();
}

constexpr const char* kTextCompletions = "/v1/completions";

TEST(ServerSpeculation, RequestsTurnItOnAndGetTheSameText) {
  const ServerProcess server;
  const Json plain = post(server, kTextCompletions, repeating_body()).json();
  const Json json =
      post(server, kTextCompletions, repeating_body({{"speculate", "ngram:2,4"}})).json();
  ASSERT_TRUE(json.contains("usage")) << json;
  EXPECT_EQ(text_of(json), text_of(plain));
  EXPECT_EQ(json["usage"]["completion_tokens"], 40);
  const Json& details = json["usage"]["completion_tokens_details"];
  const int accepted = details["accepted_prediction_tokens"];
  EXPECT_GT(accepted, 5) << json;
  EXPECT_FALSE(plain["usage"]["completion_tokens_details"].contains("accepted_prediction_tokens"));
  EXPECT_EQ(metric(server, "vllm:spec_decode_num_accepted_tokens_total"), accepted);
  EXPECT_EQ(metric(server, "vllm:spec_decode_num_draft_tokens_total"),
            accepted + details["rejected_prediction_tokens"].get<int>());
  EXPECT_FALSE(post(server, "/completion", repeating_body()).json()["timings"].contains("draft_n"));
}

TEST(ServerSpeculation, AnEventHasTheTokensOfAStep) {
  const ServerProcess server({"--speculate", "ngram:2,4"});
  const auto text_and_events = [&](const char* speculate) {
    const Json body = repeating_body({{"stream", true}, {"speculate", speculate}});
    std::pair<std::string, int> out;
    for (const Json& event : events(post(server, kTextCompletions, body).body)) {
      if (!event.is_object() || event["choices"].empty()) continue;
      out.first += event["choices"][0]["text"].get<std::string>();
      ++out.second;
    }
    return out;
  };
  const auto off = text_and_events("off");
  const auto on = text_and_events("ngram:2,4");
  EXPECT_EQ(on.first, off.first);
  EXPECT_LT(on.second, off.second);
  // By the server's flag, in the form of llama.cpp.
  const Json timings = post(server, "/completion", repeating_body()).json()["timings"];
  EXPECT_GT(timings["draft_n"], 0) << timings;
  EXPECT_GT(timings["draft_n_accepted"], 0) << timings;
}

TEST(ServerSpeculation, InvalidValuesNameTheForms) {
  const ServerProcess server;
  const Reply reply = post(server, kTextCompletions, repeating_body({{"speculate", "mtp"}}));
  EXPECT_EQ(reply.status, 400);
  EXPECT_EQ(reply.json()["error"]["param"], "speculate");
  EXPECT_NE(reply.body.find("ngram:N,K"), std::string::npos) << reply.body;
}

}  // namespace
}  // namespace graft::tests
