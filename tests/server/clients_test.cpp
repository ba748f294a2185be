// Limits per client of graft serve: rates, answers, queued tokens, priority, reload.

#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <fstream>
#include <ios>
#include <string>

#include <gtest/gtest.h>

#include "graft/base/system/temp_dir.h"

#include "tests/program.h"
#include "tests/server/server_process.h"

namespace graft::tests {
namespace {

void write_text(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::trunc) << text;
}

Headers key(const std::string& text) {
  return {{"Authorization", "Bearer " + text}};
}

Json short_body(const Json& more = Json::object()) {
  Json body = chat_body({{"max_tokens", 1}});
  body.update(more);
  return body;
}

// A metric with these labels; -1 when it is missing.
double labeled_metric(const ServerProcess& server,
                      const std::string& sample,
                      const Headers& headers = {}) {
  const std::string text = "\n" + ask(server, "GET", "/metrics", {}, headers).body;
  const std::size_t at = text.find("\n" + sample + " ");
  return at == std::string::npos ? -1 : std::atof(text.c_str() + at + sample.size() + 2);
}

TEST(ServerClients, LimitsRequestsPerMinuteOfEachKey) {
  const TempDir folder;
  write_text(folder / "keys", "one name=alice\ntwo\n");
  write_text(folder / "limits.yaml", "keys: {alice: {requests_per_minute: 2}}\n");
  const ServerProcess server(
      {"--api-key-file", folder / "keys", "--limits", folder / "limits.yaml"});
  const Reply first = post(server, kChat, short_body(), key("one"));
  EXPECT_EQ(first.status, 200);
  EXPECT_EQ(first.headers.at("x-ratelimit-limit-requests"), "2");
  EXPECT_EQ(first.headers.at("x-ratelimit-remaining-requests"), "1");
  EXPECT_EQ(post(server, kChat, short_body(), key("one")).status, 200);
  const Reply openai = post(server, kChat, short_body(), key("one"));
  EXPECT_EQ(openai.status, 429);
  EXPECT_EQ(openai.json()["error"]["type"], "rate_limit_error");
  EXPECT_EQ(openai.json()["error"]["code"], "rate_limit_exceeded");
  EXPECT_EQ(openai.headers.at("x-ratelimit-remaining-requests"), "0");
  EXPECT_TRUE(openai.headers.contains("x-ratelimit-reset-requests"));
  const int wait = std::stoi(openai.headers.at("retry-after"));
  EXPECT_TRUE(wait >= 1 && wait <= 30) << wait;
  const Reply ollama = post(server, "/api/chat", {{"model", "sprout"}}, key("one"));
  EXPECT_EQ(ollama.status, 429);
  EXPECT_TRUE(ollama.json()["error"].is_string()) << ollama.body;
  EXPECT_TRUE(ollama.headers.contains("retry-after"));
  EXPECT_EQ(ask(server, "GET", "/v1/models", {}, key("one")).status, 200) << "not limited";
  const Reply other = post(server, kChat, short_body(), key("two"));
  EXPECT_EQ(other.status, 200);
  EXPECT_FALSE(other.headers.contains("x-ratelimit-limit-requests"));
  EXPECT_EQ(labeled_metric(server, R"(graft:requests_rejected_total{reason="requests_per_minute"})",
                           key("two")),
            2);
  // printf one | sha256sum
  EXPECT_EQ(labeled_metric(server, R"(graft:key_requests_total{key="7692c3ad3540"})", key("two")),
            4);
}

TEST(ServerClients, LimitsTokensPerMinute) {
  const TempDir folder;
  write_text(folder / "limits.yaml", "default: {tokens_per_minute: 60}\n");
  const ServerProcess server({"--limits", folder / "limits.yaml"});
  const Reply first = post(server, kChat, chat_body({{"max_tokens", 60}, {"ignore_eos", true}}));
  EXPECT_EQ(first.status, 200) << first.body;
  EXPECT_EQ(first.headers.at("x-ratelimit-limit-tokens"), "60");
  EXPECT_EQ(first.headers.at("x-ratelimit-remaining-tokens"), "60");
  const Reply second = post(server, kChat, short_body());
  EXPECT_EQ(second.status, 429) << "60 output tokens, and the prompt, were used";
  EXPECT_EQ(second.headers.at("x-ratelimit-remaining-tokens"), "0");
  EXPECT_EQ(second.headers.count("retry-after"), 1U);
  EXPECT_EQ(labeled_metric(server, R"(graft:requests_rejected_total{reason="tokens_per_minute"})"),
            1);
}

TEST(ServerClients, LimitsAnswersOfOneClient) {
  const TempDir folder;
  write_text(folder / "keys", "one\ntwo\n");
  const ServerProcess server({"--api-key-file", folder / "keys", "--max-client-answers", "2"});
  Client running(server.port());
  running.send(request_text("POST", kChat, endless_body().dump(), key("one")));
  running.read_until("\"content\":\"6\"");
  const Json two = short_body({{"n", 2}, {"temperature", 1}});
  const Reply rejected = post(server, kChat, two, key("one"));
  EXPECT_EQ(rejected.status, 429);
  EXPECT_EQ(rejected.headers.at("retry-after"), "1");
  EXPECT_EQ(rejected.json()["error"]["message"],
            "too many requests: this client has 1 answers running or queued, the request has 2, "
            "max 2 (concurrent_answers)");
  EXPECT_EQ(post(server, kChat, short_body(), key("one")).status, 200) << "one more fits";
  EXPECT_EQ(post(server, kChat, two, key("two")).status, 200) << "another client";
  EXPECT_EQ(post(server, kChat, short_body({{"n", 3}, {"temperature", 1}}), key("two")).status, 400)
      << "can never run";
  EXPECT_EQ(post(server, "/v1/embeddings", {{"input", {"a", "b", "c"}}}, key("two")).status, 400);
  running.close();
  EXPECT_TRUE(eventually([&] { return post(server, kChat, two, key("one")).status == 200; }));
}

TEST(ServerClients, LimitsQueuedPromptTokens) {
  const ServerProcess server({"--max-num-seqs", "1", "--max-client-queued-tokens", "60"});
  std::string words;
  for (int i = 0; i < 40; ++i)
    words += "word ";
  const Json body = {{"prompt", words}, {"max_tokens", 1}};
  Client running(server.port());
  running.post(kChat, endless_body());
  running.read_until("\"content\":\"6\"");
  Client waiting(server.port());
  waiting.post("/v1/completions", body);
  EXPECT_TRUE(eventually([&] { return metric(server, "vllm:num_requests_waiting") == 1; }));
  const Reply rejected = post(server, "/v1/completions", body);
  EXPECT_EQ(rejected.status, 429) << rejected.body;
  EXPECT_NE(rejected.body.find("queued_tokens"), std::string::npos) << rejected.body;
  running.close();
  EXPECT_EQ(waiting.read_reply().status, 200);
  EXPECT_EQ(post(server, "/v1/completions", body).status, 200) << "nothing is queued now";
  EXPECT_EQ(post(server, "/v1/completions", {{"prompt", words + words}, {"max_tokens", 1}}).status,
            400);
}

TEST(ServerClients, PriorityNeedsAnAdminKey) {
  const TempDir folder;
  write_text(folder / "keys", "one\nroot admin\n");
  const ServerProcess server({"--api-key-file", folder / "keys"});
  const Json urgent = short_body({{"priority", -1}});
  const Reply refused = post(server, kChat, urgent, key("one"));
  EXPECT_EQ(refused.status, 403);
  EXPECT_EQ(refused.json()["error"]["param"], "priority");
  EXPECT_EQ(refused.json()["error"]["type"], "permission_error");
  EXPECT_EQ(post(server, "/v1/completions", {{"prompt", "a"}, {"priority", 7}}, key("one")).status,
            403);
  EXPECT_EQ(post(server, kChat, short_body({{"priority", 0}}), key("one")).status, 200);
  EXPECT_EQ(post(server, kChat, urgent, key("root")).status, 200);
  const ServerProcess open;
  EXPECT_EQ(post(open, kChat, urgent).status, 403) << "without keys there is no admin";
}

TEST(ServerClients, SighupReadsTheLimitsAgain) {
  const TempDir folder;
  const std::string keys = folder / "keys";
  const std::string limits = folder / "limits.yaml";
  write_text(keys, "one\n");
  write_text(limits, "default: {requests_per_minute: 1000}\n");
  const ServerProcess server({"--api-key-file", keys, "--limits", limits});
  const auto limit = [&] {
    const Reply reply = post(server, kChat, short_body(), key("one"));
    const auto found = reply.headers.find("x-ratelimit-limit-requests");
    return found == reply.headers.end() ? "none" : found->second;
  };
  EXPECT_EQ(limit(), "1000");
  write_text(limits, "default: {requests_per_minute: 2000}\n");
  server.signal(SIGHUP);
  EXPECT_TRUE(eventually([&] { return limit() == "2000"; }));
  // A bad file keeps the old limits. The new key shows when the reload is over.
  write_text(keys, "one\ntwo\n");
  write_text(limits, "default: {requests_per_minute: many}\n");
  server.signal(SIGHUP);
  EXPECT_TRUE(
      eventually([&] { return post(server, kChat, short_body(), key("two")).status == 200; }));
  EXPECT_EQ(limit(), "2000");
  write_text(limits, "default: {}\n");
  server.signal(SIGHUP);
  EXPECT_TRUE(eventually([&] { return limit() == "none"; }));
}

TEST(ServerClients, ABadLimitsFileIsAnErrorAtStart) {
  const TempDir folder;
  write_text(folder / "limits.yaml", "default:\n  rpm: 3\n");
  expect_user_error(run_program({"serve", "--limits", folder / "limits.yaml"}),
                    "limits.yaml:2: unknown limit 'rpm'");
}

}  // namespace
}  // namespace graft::tests
