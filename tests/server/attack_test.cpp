// Requests that ask for too much of graft serve: memory, time, the places of other clients.

#include <chrono>
#include <cstdio>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include "graft/base/text/str.h"
#include "graft/testing/shared_data.h"

#include "tests/program.h"
#include "tests/server/server_process.h"

namespace graft::tests {
namespace {

constexpr double kMiB = 1024 * 1024;

// Bytes of physical memory that the server uses.
double resident_bytes(const ServerProcess& server) {
  std::ifstream statm("/proc/" + std::to_string(server.pid()) + "/statm");
  double size = 0;
  double resident = 0;
  statm >> size >> resident;
  return resident * 4096;
}

// About 1.5 KB of response per token and answer.
Json logprobs_body(const Json& more = Json::object()) {
  Json body = chat_body({{"ignore_eos", true}, {"logprobs", true}, {"top_logprobs", 20}});
  body.update(more);
  return body;
}

std::string error_of(const Reply& reply) {
  return reply.json()["error"].value("message", reply.body.substr(0, 1000));
}

TEST(ServerAttack, RefusesManyLongAnswers) {
  const ServerProcess server;
  EXPECT_EQ(post(server, kChat, chat_body()).status, 200);
  const double before = resident_bytes(server);
  Json body = {{"prompt", Json::array()}, {"n", 128},           {"temperature", 0},
               {"max_tokens", 4000},      {"ignore_eos", true}, {"logprobs", 20}};
  for (int i = 0; i < 128; ++i)
    body["prompt"].push_back("a");
  const Reply reply = post(server, "/v1/completions", body);
  EXPECT_EQ(reply.status, 400);
  EXPECT_EQ(error_of(reply),
            "128 prompts x n 128 is 16384 answers, max per request 2048 (--max-answers)");
  body["prompt"] = Json::array({"a"});
  EXPECT_NE(error_of(post(server, "/v1/completions", body)).find("--max-response-mib"),
            std::string::npos);
  EXPECT_LT(resident_bytes(server) - before, 32 * kMiB);
}

TEST(ServerAttack, LimitsOfAnswersAreOptions) {
  const ServerProcess server(
      {"--max-answers", "4", "--max-output-tokens", "600", "--max-model-len", "512"});
  EXPECT_EQ(post(server, kChat, chat_body({{"n", 4}, {"max_tokens", 100}})).status, 200);
  EXPECT_EQ(error_of(post(server, kChat, chat_body({{"n", 5}}))),
            "1 prompt x n 5 is 5 answers, max per request 4 (--max-answers)");
  EXPECT_EQ(error_of(post(server, kChat, chat_body({{"n", 4}, {"max_tokens", 200}}))),
            "1 prompt x n 4 x max_tokens 200 is 800 output tokens, max per request 600 "
            "(--max-output-tokens)");
  // Without max_tokens the answers share the limit.
  const Json json = post(server, kChat, chat_body({{"n", 4}, {"ignore_eos", true}})).json();
  EXPECT_EQ(json["usage"].value("completion_tokens", 0), 600);
  EXPECT_EQ(json["choices"][3].value("finish_reason", ""), "length");
}

TEST(ServerAttack, RefusesTextsThatCannotFitBySize) {
  const ServerProcess server({"--max-model-len", "512"});
  const std::string text(1'000'000, 'a');
  const Json messages = {{{"role", "user"}, {"content", text}}};
  const std::string refused = error_of(post(server, kChat, chat_body({{"messages", messages}})));
  EXPECT_NE(refused.find(" bytes, which are at least "), std::string::npos) << refused;
  EXPECT_NE(refused.find("the max context length is 512 tokens"), std::string::npos) << refused;
  for (const char* path : {"/v1/completions", "/v1/embeddings"}) {
    const char* field = std::string(path) == "/v1/completions" ? "prompt" : "input";
    const Reply reply = post(server, path, {{field, text}});
    EXPECT_EQ(reply.status, 400);
    EXPECT_NE(error_of(reply).find("the prompt has 1000000 bytes, which are at least"),
              std::string::npos)
        << error_of(reply);
    EXPECT_EQ(reply.json()["error"].value("code", ""), "context_length_exceeded");
  }
  EXPECT_EQ(post(server, "/tokenize", {{"prompt", text}}).status, 400);
  EXPECT_EQ(post(server, "/tokenize", {{"messages", messages}}).status, 400);
}

// Ollama cuts texts that are too long; the rest of a text is not tokenized.
TEST(ServerAttack, TokenizesOnlyThePrefixOfTruncatedTexts) {
  const ServerProcess server({"--max-model-len", "64", "--body-timeout", "60"});
  std::string words;
  for (int i = 0; i < 400; ++i)
    words += str("word ", i, " é ");
  const auto embedding = [&](const std::string& text) {
    return post(server, "/api/embed", {{"model", "sprout"}, {"input", text}}).json()["embeddings"];
  };
  const Json whole = embedding(words);
  ASSERT_EQ(whole.size(), 1U);
  EXPECT_EQ(embedding(words + words), whole);
  const auto start = std::chrono::steady_clock::now();
  std::string large = words;
  while (large.size() < 24U << 20U)
    large += words;
  EXPECT_EQ(embedding(large), whole);
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
  EXPECT_EQ(post(server, "/api/embed", {{"model", "sprout"}, {"input", words}, {"truncate", false}})
                .status,
            400);
  RecordProperty("seconds", std::to_string(time.count()));
}

TEST(ServerAttack, ReturnsTheMemoryOfRefusedRequests) {
  GRAFT_SKIP_UNDER_SANITIZERS();  // they also keep freed memory
  const ServerProcess server;
  EXPECT_EQ(post(server, kChat, chat_body()).status, 200);
  const double before = resident_bytes(server);
  std::string tokens = R"({"prompt":[1)";
  while (tokens.size() < 26U << 20U)
    tokens += ",1,1,1,1,1,1,1,1";
  tokens += "]}";
  const Json messages = {{{"role", "user"}, {"content", std::string(26U << 20U, 'a')}}};
  const std::string text = chat_body({{"messages", messages}}).dump();
  // Connections that stay open must not keep bodies either.
  Client first(server.port());
  Client second(server.port());
  for (int i = 0; i < 2; ++i) {
    first.send(request_text("POST", "/v1/completions", tokens));
    second.send(request_text("POST", kChat, text));
    EXPECT_EQ(first.read_reply().status, 400);
    EXPECT_EQ(second.read_reply().status, 400);
  }
  EXPECT_TRUE(eventually([&] { return resident_bytes(server) - before < 32 * kMiB; }))
      << (resident_bytes(server) - before) / kMiB << " MiB more than before";
}

TEST(ServerAttack, EveryTextOfAnEmbeddingsRequestCounts) {
  const ServerProcess server({"--max-num-seqs", "2", "--max-queue", "3", "--max-answers", "8"});
  Json texts = Json::array();
  for (int i = 0; i < 9; ++i)
    texts.push_back("a");
  for (const char* path : {"/v1/embeddings", "/api/embed"}) {
    const Reply reply = post(server, path, {{"model", "sprout"}, {"input", texts}});
    EXPECT_EQ(reply.status, 400);
    EXPECT_NE(reply.body.find("9 texts, max per request 8 (--max-answers)"), std::string::npos);
  }
  Client running(server.port());
  running.post(kChat, endless_body());
  running.read_until("\"content\":\"6\"");
  texts.erase(0);
  EXPECT_EQ(post(server, "/v1/embeddings", {{"input", texts}}).status, 429);
  EXPECT_EQ(post(server, "/v1/embeddings", {{"input", {"a", "b", "c", "d"}}}).json()["data"].size(),
            4U);
}

TEST(ServerAttack, ALargeRequestDelaysNoOtherClient) {
  const TempDir folder;
  std::ofstream(folder / "keys") << "large\nsmall\n";
  const ServerProcess server({"--api-key-file", folder / "keys", "--max-num-seqs", "4"});
  Json body = {{"prompt", Json::array()}, {"n", 4}, {"max_tokens", 400}, {"ignore_eos", true}};
  for (int i = 0; i < 300; ++i)
    body["prompt"].push_back("Once upon a time " + std::to_string(i));
  Client large(server.port());
  large.send(request_text("POST", "/v1/completions", body.dump(), {{"x-api-key", "large"}}));
  EXPECT_FALSE(large.has_input(500)) << "it runs for long";
  EXPECT_EQ(post(server, kChat, chat_body({{"max_tokens", 4}}), {{"x-api-key", "small"}}).status,
            200);
  EXPECT_FALSE(large.has_input(0)) << "it was not waited for";
}

TEST(ServerAttack, EndsResponsesThatGrowTooLarge) {
  const ServerProcess server({"--max-response-mib", "1"});
  const Reply reply = post(server, kChat, logprobs_body());
  EXPECT_EQ(reply.status, 400);
  EXPECT_NE(error_of(reply).find("the response has more than 1048576 bytes (--max-response-mib)"),
            std::string::npos)
      << error_of(reply);
  EXPECT_EQ(reply.json()["error"].value("code", ""), "response_too_large");
}

TEST(ServerAttack, FastReadersGetLargeStreams) {
  const ServerProcess server({"--stream-buffer-kib", "16"});
  const Json body = logprobs_body({{"stream", true}, {"n", 32}, {"max_tokens", 120}});
  const Reply reply = post(server, kChat, body);
  EXPECT_GT(reply.body.size(), 5 * kMiB);
  EXPECT_TRUE(reply.body.ends_with("data: [DONE]\n\n"));
  const Reply whole = post(server, kChat, logprobs_body({{"n", 32}, {"max_tokens", 120}}));
  EXPECT_EQ(whole.status, 200);
  EXPECT_GT(whole.body.size(), 5 * kMiB);
  EXPECT_EQ(whole.json()["choices"][31]["logprobs"]["content"].size(), 120);
}

TEST(ServerAttack, SlowReadersPauseTheirRequest) {
  GRAFT_SKIP_UNDER_SANITIZERS();
  const ServerProcess server({"--stream-buffer-kib", "64"});
  const Json more = {{"n", 8}, {"temperature", 1}, {"seed", 1}, {"max_tokens", 400}};
  Json body = logprobs_body(more);
  const Reply whole = post(server, kChat, body);
  body["stream"] = true;
  const double before = resident_bytes(server);
  Client slow(server.port(), 4096);
  slow.post(kChat, body);
  // Paused sequences wait; they give their slots and their KV cache to others.
  EXPECT_TRUE(eventually([&] { return metric(server, "vllm:num_requests_waiting") == 8; }));
  EXPECT_EQ(metric(server, "vllm:num_requests_running"), 0);
  EXPECT_EQ(post(server, kChat, chat_body()).status, 200) << "others are served meanwhile";
  EXPECT_LT(resident_bytes(server) - before, 16 * kMiB);
  std::vector<std::string> texts(8);
  for (const Json& event : events(slow.read_reply().body)) {
    if (!event.is_object()) continue;
    const Json& choice = event["choices"][0];
    texts[choice["index"].get<std::size_t>()] += choice["delta"].value("content", "");
  }
  for (std::size_t i = 0; i < texts.size(); ++i)
    EXPECT_EQ(texts[i], whole.json()["choices"][i]["message"]["content"]) << i;
}

}  // namespace
}  // namespace graft::tests
