// graft serve end to end over sockets: the response of every path.

#include <algorithm>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

#include "graft/base/text/base64.h"

#include "tests/program.h"
#include "tests/server/server_process.h"

namespace graft::tests {
namespace {

// Sprout answers this reliably.
const Json kSumQuestion = {{"role", "user"}, {"content", "Find the sum of 62 and 1."}};
constexpr const char* kSum = "62 + 1 = 63";

Json chat_body(const Json& more = Json::object()) {
  Json body = {{"model", "sprout"}, {"messages", {kSumQuestion}}, {"temperature", 0}};
  body.update(more);
  return body;
}

Json price_tool() {
  return {{"type", "function"},
          {"function",
           {{"name", "get_price"},
            {"description", "Get the price of an item"},
            {"parameters",
             {{"type", "object"},
              {"properties", {{"item", {{"type", "string"}, {"description", "The item"}}}}},
              {"required", {"item"}}}}}}};
}

TEST(Server, ServesOpenAiApi) {
  const ServerProcess server;
  ASSERT_NE(server.port(), 0) << server.first_line();
  EXPECT_EQ(get(server, "/health").json()["status"], "ok");
  for (int i = 0; i < 600 && get(server, "/ready").status == 503; ++i)
    ::usleep(100'000);  // while the model loads
  EXPECT_EQ(get(server, "/ready").status, 200);
  EXPECT_NE(get(server, "/").body.find("running"), std::string::npos);

  const Json models = get(server, "/v1/models").json();
  EXPECT_EQ(models["data"][0]["id"], "sprout");
  EXPECT_EQ(models["data"][0]["max_model_len"], 4096);
  EXPECT_EQ(get(server, "/v1/models/sprout").json()["object"], "model");
  EXPECT_EQ(get(server, "/v1/models/other").status, 404);

  const Reply chat =
      post(server, "/v1/chat/completions", chat_body(), {{"x-request-id", "mine-1"}});
  EXPECT_EQ(chat.status, 200) << chat.body;
  EXPECT_EQ(chat.headers.at("x-request-id"), "mine-1");
  const Json json = chat.json();
  EXPECT_EQ(json["choices"][0]["message"]["content"], kSum);
  EXPECT_EQ(json["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(json["usage"]["prompt_tokens"], 22);
  const Json again = post(server, "/v1/chat/completions", chat_body()).json();
  EXPECT_EQ(again["usage"]["prompt_tokens_details"]["cached_tokens"], 16);

  const Json completion = post(server, "/v1/completions",
                               {{"prompt", {"Once upon a time", "The sun"}},
                                {"max_tokens", 4},
                                {"n", 2},
                                {"seed", 1},
                                {"temperature", 1},
                                {"echo", true},
                                {"logprobs", 2}})
                              .json();
  ASSERT_EQ(completion["choices"].size(), 4U) << completion;
  EXPECT_TRUE(completion["choices"][2]["text"].get<std::string>().starts_with("The sun"));
  EXPECT_TRUE(completion["choices"][0]["logprobs"]["token_logprobs"][0].is_null());
  EXPECT_EQ(completion["usage"]["completion_tokens"], 16);
}

TEST(Server, TokenizesAndEmbeds) {
  const ServerProcess server;
  const Json tokens = post(server, "/tokenize", {{"prompt", "Hello world"}}).json();
  EXPECT_EQ(tokens["count"], 2);
  EXPECT_EQ(post(server, "/detokenize", {{"tokens", tokens["tokens"]}}).json()["prompt"],
            "Hello world");
  EXPECT_EQ(post(server, "/tokenize", {{"messages", {kSumQuestion}}}).json()["count"], 22);

  const Json floats =
      post(server, "/v1/embeddings", {{"input", {"Hello", "world"}}, {"dimensions", 8}}).json();
  ASSERT_EQ(floats["data"].size(), 2U) << floats;
  EXPECT_EQ(floats["data"][1]["embedding"].size(), 8U);
  const Json base64 =
      post(server, "/v1/embeddings", {{"input", "Hello"}, {"encoding_format", "base64"}}).json();
  EXPECT_EQ(base64_decode(base64["data"][0]["embedding"].get<std::string>())->size(), 512U * 4);
  EXPECT_EQ(post(server, "/v1/embeddings", {{"input", "Hello"}, {"dimensions", 513}}).status, 400);
  EXPECT_EQ(post(server, "/v1/embeddings", {{"input", ""}}).status, 400);
}

TEST(Server, StreamsChats) {
  const ServerProcess server;
  const Json more = {{"stream", true},
                     {"stream_options", {{"include_usage", true}}},
                     {"logprobs", true},
                     {"top_logprobs", 2}};
  const Reply reply = post(server, "/v1/chat/completions", chat_body(more));
  EXPECT_EQ(reply.headers.at("content-type"), "text/event-stream; charset=utf-8");
  const std::vector<Json> all = events(reply.body);
  ASSERT_GT(all.size(), 4U) << reply.body;
  EXPECT_EQ(all.back(), "[DONE]");
  EXPECT_EQ(all[all.size() - 2]["usage"]["completion_tokens"], 10);
  EXPECT_EQ(all[all.size() - 3]["choices"][0]["finish_reason"], "stop");
  std::string text;
  std::size_t num_logprobs = 0;
  for (const Json& event : all) {
    if (!event.is_object() || event["choices"].empty()) continue;
    text += event["choices"][0]["delta"].value("content", "");
    if (event["choices"][0]["logprobs"].is_object())
      num_logprobs += event["choices"][0]["logprobs"]["content"].size();
  }
  EXPECT_EQ(text, kSum);
  EXPECT_EQ(num_logprobs, 9U) << "without the end token";

  const std::vector<Json> several = events(
      post(server, "/v1/completions",
           {{"prompt", "Once"}, {"n", 3}, {"max_tokens", 3}, {"stream", true}, {"temperature", 1}})
          .body);
  int num_ends = 0;
  for (const Json& event : several) {
    if (event.is_object() && !event["choices"][0]["finish_reason"].is_null()) ++num_ends;
  }
  EXPECT_EQ(num_ends, 3);
}

TEST(Server, ParsesToolCallsAndReasoning) {
  const ServerProcess server;
  const Json body = {
      {"messages", {{{"role", "user"}, {"content", "How much does the item watch cost?"}}}},
      {"tools", {price_tool()}},
      {"temperature", 0}};
  const Json choice = post(server, "/v1/chat/completions", body).json()["choices"][0];
  ASSERT_EQ(choice["finish_reason"], "tool_calls") << choice;
  const Json call = choice["message"]["tool_calls"][0];
  EXPECT_EQ(call["function"]["name"], "get_price");
  EXPECT_EQ(Json::parse(call["function"]["arguments"].get<std::string>())["item"], "watch");

  Json next = body;
  next["messages"].push_back(choice["message"]);
  next["messages"].push_back(
      {{"role", "tool"}, {"tool_call_id", call["id"]}, {"content", R"({"price": 18})"}});
  const Json answer = post(server, "/v1/chat/completions", next).json()["choices"][0];
  EXPECT_NE(answer["message"]["content"].get<std::string>().find("18"), std::string::npos)
      << answer;

  const Json thought =
      post(server, "/v1/chat/completions",
           {{"messages",
             {{{"role", "system"}, {"content", "Think step by step."}},
              {{"role", "user"}, {"content", "Emma is 80 years old. What is Emma's age?"}}}},
            {"temperature", 0}})
          .json();
  const Json message = thought["choices"][0]["message"];
  EXPECT_FALSE(message.value("reasoning_content", "").empty()) << thought;
  EXPECT_EQ(message["content"].get<std::string>().find("<think>"), std::string::npos);
  EXPECT_GT(thought["usage"]["completion_tokens_details"]["reasoning_tokens"], 0);
}

TEST(Server, ServesOllamaApi) {
  const ServerProcess server;
  EXPECT_TRUE(get(server, "/api/version").json()["version"].is_string());
  const Json tags = get(server, "/api/tags").json();
  EXPECT_EQ(tags["models"][0]["model"], "sprout");
  const Json show = post(server, "/api/show", {{"model", "sprout:latest"}}).json();
  EXPECT_EQ(show["model_info"]["deepseek2.context_length"], 4096) << show;

  const std::vector<Json> chat = lines(
      post(server, "/api/chat",
           {{"model", "sprout"}, {"messages", {kSumQuestion}}, {"options", {{"temperature", 0}}}})
          .body);
  std::string text;
  for (const Json& line : chat)
    text += line["message"]["content"].get<std::string>();
  EXPECT_EQ(text, kSum);
  EXPECT_EQ(chat.back()["done_reason"], "stop");
  EXPECT_GT(chat.back()["eval_duration"], 0);

  const Json generated = post(server, "/api/generate",
                              {{"model", "sprout"},
                               {"prompt", "Find the sum of 62 and 1."},
                               {"stream", false},
                               {"options", {{"temperature", 0}, {"num_predict", 3}}}})
                             .json();
  EXPECT_EQ(generated["response"], "62 +");
  EXPECT_EQ(generated["done_reason"], "length");
  EXPECT_EQ(generated["context"].size(), 25U);

  const Json called =
      post(server, "/api/chat",
           {{"model", "sprout"},
            {"messages", {{{"role", "user"}, {"content", "How much does the item watch cost?"}}}},
            {"tools", {price_tool()}},
            {"stream", false},
            {"options", {{"temperature", 0}}}})
          .json();
  EXPECT_EQ(called["message"]["tool_calls"][0]["function"]["arguments"]["item"], "watch") << called;

  const Json vectors =
      post(server, "/api/embed", {{"model", "sprout"}, {"input", {"a", "b"}}}).json();
  EXPECT_EQ(vectors["embeddings"].size(), 2U) << vectors;
  EXPECT_EQ(get(server, "/api/ps").json()["models"][0]["name"], "sprout");
  EXPECT_EQ(post(server, "/api/chat", {{"model", "none"}}).json()["error"].is_string(), true);
  EXPECT_EQ(post(server, "/api/generate", {{"model", "sprout"}}).json()["done_reason"], "load");
  EXPECT_EQ(
      post(server, "/api/generate", {{"model", "sprout"}, {"keep_alive", 0}}).json()["done_reason"],
      "unload");
}

TEST(Server, ReportsMetricsPlanAndAccessLog) {
  const TempDir folder;
  const ServerProcess server({"--access-log", folder / "log"});
  post(server, "/v1/chat/completions", chat_body());
  const std::string metrics = get(server, "/metrics").body;
  for (const char* line :
       {"vllm:request_success_total{model_name=\"sprout\",engine=\"0\",finished_reason=\"stop\"} "
        "1\n",
        "vllm:prompt_tokens_total{model_name=\"sprout\",engine=\"0\"} 22\n",
        "vllm:time_to_first_token_seconds_count{model_name=\"sprout\",engine=\"0\"} 1\n"})
    EXPECT_NE(metrics.find(line), std::string::npos) << line << metrics;
  const Json plan = get(server, "/v1/plan").json()["models"][0];
  EXPECT_EQ(plan["name"], "sprout");
  for (const Json& placement : plan["placements"]) {
    EXPECT_EQ(placement["dtype"].is_string(), placement["weight_bytes"] > 0) << placement;
    if (placement["role"] == "experts") {
      EXPECT_EQ(placement["dtype"], "Q6_K");
    }
  }
  const Json history = get(server, "/v1/history").json();
  EXPECT_GT(history["samples"][0]["resident_bytes"], 1 << 20) << history;
  Outcome log;
  ASSERT_TRUE(eventually([&] {
    log = run_command({"/bin/cat", folder / "log"});
    return log.out.find("/metrics") != std::string::npos;
  }));
  const Json first = lines(log.out).at(0);
  EXPECT_EQ(first["path"], "/v1/chat/completions");
  EXPECT_EQ(first["output_tokens"], 10);
  EXPECT_EQ(log.out.find("sum of"), std::string::npos) << "prompts must not be logged";
}

TEST(Server, ProfileAddsModuleTimesToThePlan) {
  const ServerProcess server({"--profile"});
  ASSERT_EQ(post(server, "/v1/chat/completions", chat_body()).status, 200);
  int num_timed = 0;
  const Json timed = get(server, "/v1/plan").json()["models"][0]["placements"];
  for (const Json& placement : timed) {
    const std::string module = placement["module"];
    if (!module.ends_with("o_proj") && !module.ends_with(".experts")) continue;
    EXPECT_GT(placement.value("calls", 0), 1) << placement;
    EXPECT_GT(placement.value("seconds", 0.0), 0.0) << placement;
    ++num_timed;
  }
  EXPECT_GT(num_timed, 6);
  const ServerProcess plain;
  ASSERT_EQ(post(plain, "/v1/chat/completions", chat_body()).status, 200);
  const Json placements = get(plain, "/v1/plan").json()["models"][0]["placements"];
  EXPECT_FALSE(placements[0].contains("seconds"));
}

TEST(Server, CountsTokensWhileStreaming) {
  const ServerProcess server;
  Client client(server.port());
  client.post("/v1/chat/completions", chat_body({{"stream", true}, {"ignore_eos", true}}));
  client.read_until("\"content\":\"6");
  EXPECT_TRUE(eventually([&] { return metric(server, "vllm:generation_tokens_total") > 3; }));
  EXPECT_EQ(metric(server, "vllm:prompt_tokens_total"), 22);
  const double num_before = metric(server, "vllm:generation_tokens_total");
  EXPECT_TRUE(
      eventually([&] { return metric(server, "vllm:generation_tokens_total") > num_before; }));
  EXPECT_EQ(metric(server, "vllm:num_requests_running"), 1) << "the request is still running";
}

TEST(Server, GreedySamplesAreEqual) {
  const ServerProcess server({"--max-num-seqs", "2"});
  const Json several = post(server, "/v1/chat/completions", chat_body({{"n", 3}})).json();
  ASSERT_EQ(several["choices"].size(), 3U) << several;
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(several["choices"][i]["index"], i);
    EXPECT_EQ(several["choices"][i]["message"]["content"], kSum);
    EXPECT_EQ(several["choices"][i]["finish_reason"], "stop");
  }
  EXPECT_EQ(several["usage"]["prompt_tokens"], 22);
  EXPECT_EQ(several["usage"]["completion_tokens"], 30);

  std::map<int, std::string> texts;
  const Json more = {{"n", 3}, {"stream", true}, {"stream_options", {{"include_usage", true}}}};
  const std::vector<Json> all = events(post(server, "/v1/chat/completions", chat_body(more)).body);
  for (const Json& event : all) {
    if (event.is_object() && !event["choices"].empty())
      texts[event["choices"][0]["index"]] += event["choices"][0]["delta"].value("content", "");
  }
  EXPECT_EQ(texts, (std::map<int, std::string>{{0, kSum}, {1, kSum}, {2, kSum}}));
  EXPECT_EQ(all[all.size() - 2]["usage"]["completion_tokens"], 30);

  const Json completion = post(server, "/v1/completions",
                               {{"prompt", {"Once upon a time", "The sun"}},
                                {"max_tokens", 4},
                                {"n", 2},
                                {"temperature", 0},
                                {"echo", true}})
                              .json();
  ASSERT_EQ(completion["choices"].size(), 4U) << completion;
  EXPECT_EQ(completion["choices"][0]["text"], completion["choices"][1]["text"]);
  EXPECT_EQ(completion["choices"][2]["text"], completion["choices"][3]["text"]);
  EXPECT_TRUE(completion["choices"][3]["text"].get<std::string>().starts_with("The sun"));
  EXPECT_EQ(completion["usage"]["completion_tokens"], 16);
}

TEST(Server, SwitchesBetweenModels) {
  const ServerProcess server({"--model", "a=" + bundled_model(), "--model", "b=" + bundled_model(),
                              "--max-loaded-models", "1", "--lazy"});
  EXPECT_EQ(get(server, "/api/ps").json()["models"].size(), 0U);
  for (const char* name : {"a", "b", "B:latest", "a"}) {
    Json body = chat_body();
    body["model"] = name;
    const Json json = post(server, "/v1/chat/completions", body).json();
    EXPECT_EQ(json["choices"][0]["message"]["content"], kSum) << json;
    const Json running = get(server, "/api/ps").json()["models"];
    ASSERT_EQ(running.size(), 1U);
    EXPECT_EQ(running[0]["name"], json["model"]);
  }
  EXPECT_EQ(post(server, "/v1/chat/completions", chat_body()).status, 404)
      << "sprout is not served";
  post(server, "/api/generate", {{"model", "a"}, {"keep_alive", 0}});
  for (int i = 0; i < 600 && !get(server, "/api/ps").json()["models"].empty(); ++i)
    ::usleep(100'000);
  EXPECT_EQ(get(server, "/api/ps").json()["models"].size(), 0U);
}

TEST(Server, RejectsInvalidArguments) {
  const TempDir folder;
  std::filesystem::create_symlink(bundled_model(), folder / "other.gguf");
  for (const std::vector<std::string>& arguments : std::vector<std::vector<std::string>>{
           {"--model", "nowhere"},
           {"--model", "a=" + bundled_model(), "--model", "a=" + (folder / "other.gguf").string()},
           {"--host", "no.such.host.invalid"},
           {"--tls-cert", "x.pem"},
           {"--tls-cert", "x.pem", "--tls-key", "y.pem"},
           {"--api-key-file", folder / "none"},
           {"--access-log", "/nowhere/log"},
           {"--max-body-mib", "0"},
           {"--max-connections", "0"},
           {"--header-timeout", "-1"},
           {"--body-timeout", "0"},
           {"--idle-timeout", "nan"},
           {"--write-timeout", "1e99"},
           {"--ping-seconds", "soon"}}) {
    std::vector<std::string> words = {"serve", "--port", "0"};
    words.insert(words.end(), arguments.begin(), arguments.end());
    const Outcome outcome = run_program(words);
    EXPECT_EQ(outcome.exit_code, 2) << arguments[0] << " " << arguments[1] << outcome.err;
    EXPECT_TRUE(outcome.err.starts_with("graft: ")) << outcome.err;
  }
}

// `graft bench serve` with many concurrent clients.
TEST(Server, ServesItsOwnBenchmark) {
  const ServerProcess server;
  const std::string url = "http://127.0.0.1:" + std::to_string(server.port());
  const Outcome outcome =
      run_program({"bench", "serve", "--url", url, "--clients", "1,40", "--rounds", "2",
                   "--max-tokens", "5", "--prompt-words", "9", "--json"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  const Json lines = Json::parse(outcome.out, nullptr, false);
  ASSERT_EQ(lines.size(), 2U) << outcome.out;
  EXPECT_EQ(lines[1]["requests"], 80);
  EXPECT_EQ(lines[1]["failed"], 0);
  EXPECT_EQ(lines[1]["output_tokens"], 400);
  EXPECT_GT(lines[1]["first_token_seconds"]["p50"], 0);

  const Outcome unknown = run_program({"bench", "serve", "--url", url, "--name", "unknown"});
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_NE(unknown.out.find("HTTP 404"), std::string::npos) << unknown.out;
  for (const char* wrong : {"http://127.0.0.1:1", "ftp://x"}) {
    const Outcome refused = run_program({"bench", "serve", "--url", wrong});
    EXPECT_EQ(refused.exit_code, 2) << wrong;
    EXPECT_EQ(std::ranges::count(refused.err, '\n'), 1) << refused.err;
  }
}

}  // namespace
}  // namespace graft::tests
