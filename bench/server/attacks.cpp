#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "graft/base/text/str.h"

#include "bench/server/attack.h"
#include "bench/server/bodies.h"
#include "bench/server/watch.h"
#include "tests/server/mutated_load.h"
#include "tests/server/mutation.h"
#include "tests/server/server_process.h"

namespace graft::bench {
namespace {

using tests::Client;
using tests::Reply;
using tests::request_text;
using Arguments = std::vector<std::string>;
using Clients = std::vector<std::unique_ptr<Client>>;

const tests::Headers kLarge = {{"x-api-key", "large"}};
const tests::Headers kSmall = {{"x-api-key", "small"}};

Arguments no_arguments(const TempDir& /*folder*/) {
  return {};
}

std::string large_post(const std::string& path, const std::string& body) {
  return request_text("POST", path, body, kLarge);
}

// Connections that have sent `text`.
Clients senders(const Target& target, int count, const std::string& text, int receive_bytes = 0) {
  Clients clients;
  for (int i = 0; i < count; ++i) {
    clients.push_back(std::make_unique<Client>(target.server.port(), receive_bytes));
    clients.back()->send(text);
  }
  return clients;
}

// A chat of four tokens by another client; the problem, or the time as a note.
std::string chat_beside(const Target& target, std::string& note) {
  const Clock::time_point start = Clock::now();
  const int status =
      tests::post(target.server, tests::kChat, tests::chat_body({{"max_tokens", 4}}), kSmall)
          .status;
  const double seconds = seconds_since(start);
  if (status != 200) return str("a chat beside got ", status);
  if (seconds > target.max_beside_seconds)
    return fmt::format("a chat beside took {:.1f} s", seconds);
  note = fmt::format("a chat beside took {:.2f} s", seconds);
  return {};
}

// All get `status`.
std::string expect_status(Clients& clients, int status) {
  for (const auto& client : clients) {
    const int got = client->read_reply().status;
    if (got != status) return str("status ", got, " instead of ", status);
  }
  return {};
}

std::string memory_bombs(const Target& target, std::string& /*note*/) {
  Clients clients = senders(target, 16, large_post(kCompletions, memory_bomb().dump()));
  return expect_status(clients, 400);
}

std::string slow_readers(const Target& target, std::string& note) {
  const Clients slow =
      senders(target, 32, large_post(tests::kChat, large_stream(8, 400).dump()), 4096);
  std::this_thread::sleep_for(std::chrono::seconds(5));
  return chat_beside(target, note);
}

// The server writes its access log to a pipe that is not read.
std::string unread_log(const Target& target, std::string& note) {
  Client client(target.server.port());
  for (int i = 0; i < 3000; ++i) {
    client.send(request_text("GET", "/v1/models", {}, kSmall));
    const int status = client.read_reply().status;
    if (status != 200) return str("status ", status, " of request ", i);
  }
  return chat_beside(target, note);
}

std::string closed_log(const Target& target, std::string& note) {
  target.server.close_output();
  return unread_log(target, note);
}

// A page of another origin may send GET requests, of which its browser hides the responses.
std::string foreign_names(const Target& target, std::string& /*note*/) {
  constexpr std::array kNames = {"GET /v1/models HTTP/1.1\r\nHost: evil.example",
                                 "GET /metrics HTTP/1.1\r\nHost: localhost.evil.example:8000",
                                 "GET / HTTP/1.1\r\nHost: 127.0.0.1.evil.example",
                                 "POST /api/generate HTTP/1.1\r\nHost: evil.example",
                                 "POST /api/generate HTTP/1.1\r\nHost: localhost\r\nOrigin: "
                                 "https://evil.example",
                                 "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n"
                                 "Origin: http://localhost.evil.example"};
  for (const char* name : kNames) {
    Client client(target.server.port());
    client.send(str(name, "\r\nx-api-key: small\r\nContent-Length: 2\r\n\r\n{}"));
    const int status = client.read_reply().status;
    if (status != 403) return str(name, ": status ", status);
  }
  return {};
}

std::string starvation(const Target& target, std::string& note) {
  const Clients large =
      senders(target, 2, large_post(kCompletions, many_answers(512, 4, 400).dump()));
  std::this_thread::sleep_for(std::chrono::seconds(1));
  return chat_beside(target, note);
}

std::string many_embeddings(const Target& target, std::string& note) {
  std::string text;
  for (int i = 0; i < 100; ++i)
    text += "word ";
  Json input = Json::array();
  for (int i = 0; i < 2048; ++i)
    input.push_back(str(i, " ", text));
  const Json body = {{"input", input}};
  const Clients large = senders(target, 1, large_post("/v1/embeddings", body.dump()));
  std::this_thread::sleep_for(std::chrono::seconds(1));
  return chat_beside(target, note);
}

// Each on a thread of its own, because a body fills the socket's buffer.
std::string send_together(const Target& target, const std::vector<std::string>& texts) {
  std::vector<int> statuses(texts.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    threads.emplace_back([&, i] {
      Client client(target.server.port());
      client.send(texts[i]);
      statuses[i] = client.read_reply().status;
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  for (const int status : statuses) {
    if (status / 100 != 4) return str("status ", status);
  }
  return {};
}

std::string large_texts(const Target& target, std::string& /*note*/) {
  const std::string body = long_text(26U << 20U);
  const std::string embedding = Json{{"input", std::string(26U << 20U, 'b')}}.dump();
  const std::string truncated =
      Json{{"model", "sprout"}, {"input", std::string(26U << 20U, 'b')}, {"truncate", true}}.dump();
  // Ollama truncates instead of refusing; its prefix is tokenized only.
  Client truncating(target.server.port());
  std::thread sender([&] { truncating.send(large_post("/api/embed", truncated)); });
  const std::string problem = send_together(
      target, {large_post(tests::kChat, body), large_post(tests::kChat, body),
               large_post("/v1/embeddings", embedding), large_post(kCompletions, body)});
  sender.join();
  const int status = truncating.read_reply().status;
  if (status != 200 && status / 100 != 4) return str("status ", status, " of /api/embed");
  return problem;
}

std::string large_lists(const Target& target, std::string& /*note*/) {
  const std::string text = large_post(kCompletions, long_token_list(26U << 20U));
  return send_together(target, std::vector<std::string>(4, text));
}

Arguments two_models(const TempDir& /*folder*/) {
  return {"--model",
          "first=" + tests::bundled_model(),
          "--model",
          "second=" + tests::bundled_model(),
          "--max-loaded-models",
          "1",
          "--switch-seconds",
          "1"};
}

// Streams of the first model without a pause; a request for the second one.
std::string model_starvation(const Target& target, std::string& note) {
  std::atomic<bool> is_stopping = false;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 1000 && !is_stopping; ++round)
        tests::post(target.server, tests::kChat,
                    tests::chat_body({{"ignore_eos", true}, {"max_tokens", 100}}), kLarge);
    });
  }
  std::this_thread::sleep_for(std::chrono::seconds(1));
  const Clock::time_point start = Clock::now();
  const int status =
      tests::post(target.server, tests::kChat, tests::chat_body({{"model", "second"}}), kSmall)
          .status;
  const double seconds = seconds_since(start);
  is_stopping = true;
  for (std::thread& thread : threads)
    thread.join();
  note = fmt::format("the other model answered after {:.1f} s", seconds);
  if (status != 200) return str("the other model got ", status);
  return seconds > 20 ? note : std::string();
}

struct Framing {
  const char* head;
  int status;
};

std::string smuggling(const Target& target, std::string& /*note*/) {
  constexpr std::array kFramings = {
      Framing{"Host: localhost\r\nTransfer-Encoding: chunked, gzip", 501},
      Framing{"Host: localhost\r\nTransfer-Encoding: xchunked", 501},
      Framing{"Host: localhost\r\nTransfer-Encoding: gzip, chunked", 501},
      Framing{"Host: localhost\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked", 501},
      Framing{"Host: localhost\r\nTransfer-Encoding: chunked\r\nContent-Length: 5", 400},
      Framing{"Host: localhost\r\nContent-Length: 5\r\nContent-Length: 6", 400},
      Framing{"Host: localhost\r\nContent-Length: +5", 400},
      Framing{"Host: localhost\r\nHost: localhost\r\nContent-Length: 5", 400},
      Framing{"Content-Length: 5", 400},
  };
  for (const Framing& framing : kFramings) {
    Client client(target.server.port());
    client.send(str("POST /v1/chat/completions HTTP/1.1\r\nx-api-key: large\r\n", framing.head,
                    "\r\n\r\n0\r\n\r\n", request_text("GET", "/health")));
    const int status = client.read_reply().status;
    if (status != 400 && status != 501) return str(framing.head, ": status ", status);
    const int second = client.read_reply().status;
    if (second != 0) return str(framing.head, ": a second response with status ", second);
  }
  return {};
}

Arguments short_timeouts(const TempDir& /*folder*/) {
  return {"--header-timeout", "2", "--body-timeout", "2"};
}

std::string slow_senders(const Target& target, std::string& note) {
  const Clients heads = senders(target, 200, "POST /v1/chat/comp");
  const Clients bodies = senders(target, 200,
                                 "POST /api/chat HTTP/1.1\r\nHost: localhost\r\nx-api-key: "
                                 "large\r\nContent-Length: 1000\r\n\r\n{");
  for (int round = 0; round < 30; ++round) {
    for (const Clients* clients : {&heads, &bodies}) {
      for (const auto& client : *clients)
        client->send("x");
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  for (const Clients* clients : {&heads, &bodies}) {
    for (const auto& client : *clients) {
      if (!client->has_input(10'000)) return "a slow connection is still open";
    }
  }
  return chat_beside(target, note);
}

std::string disconnects(const Target& target, std::string& /*note*/) {
  const ProcessUse before = use_of(target.server.pid());
  for (int round = 0; round < 4; ++round) {
    Clients clients = senders(target, 500, large_post(tests::kChat, large_stream(1, 1000).dump()));
    for (std::size_t i = 0; i < clients.size(); i += 2)
      clients[i]->reset();
  }
  const bool is_clean = tests::eventually([&] {
    const ProcessUse use = use_of(target.server.pid());
    // The watch has one connection of its own.
    return use.num_files <= before.num_files + 1 && use.num_threads <= before.num_threads;
  });
  return is_clean ? "" : "connections or threads are left";
}

std::string hard_json(const Target& target, std::string& /*note*/) {
  for (const std::string& body :
       {std::string(100'000, '['), R"({"messages":)" + tests::nested_lists(100'000) + "}",
        std::string(R"({"messages":[{"role":"user","content":"a"}],"temperature":NaN})"),
        std::string(
            R"({"messages":[{"role":"user","content":"a"}],"max_tokens":18446744073709551616})"),
        std::string(R"({"messages":[{"role":"user","content":"a"}],"top_p":1e999})")}) {
    for (int i = 0; i < 20; ++i) {
      const int status = tests::ask(target.server, "POST", tests::kChat, body, kLarge).status;
      if (status != 400) return str("status ", status, " to ", body.substr(0, 80));
    }
  }
  return {};
}

Arguments copied_model(const TempDir& folder) {
  std::filesystem::copy_file(tests::bundled_model(), folder / "copy.gguf");
  return {"--no-repack", "--model", "sprout=" + tests::bundled_model(), "--model",
          "copy=" + (folder / "copy.gguf").string()};
}

std::string truncated_model(const Target& target, std::string& note) {
  Json body = tests::endless_body();
  body["model"] = "copy";
  Client running(target.server.port());
  running.send(large_post(tests::kChat, body.dump()));
  running.read_until("\"content\":");
  std::filesystem::resize_file(target.folder / "copy.gguf", 1U << 20U);
  if (!running.read_until("was truncated").ends_with("was truncated"))
    return "the running stream did not end with the error";
  const int status =
      tests::post(target.server, tests::kChat, tests::chat_body({{"model", "copy"}}), kLarge)
          .status;
  if (status != 500) return str("the truncated model got ", status);
  return chat_beside(target, note);
}

std::string mutated_requests(const Target& target, std::string& note) {
  tests::MutatedLoad all;
  for (const std::string& path : tests::request_paths()) {
    tests::MutatedLoad load =
        tests::send_mutated(target.server.port(), path, target.options.mutations, "large");
    for (const auto& [status, count] : load.statuses)
      all.statuses[status] += count;
    for (std::string& problem : load.problems)
      all.problems.push_back(std::move(problem));
  }
  note = "responses by status " + all.text();
  return all.problems.empty() ? std::string() : all.problems.front();
}

}  // namespace

const std::vector<Attack>& attacks() {
  const auto log = [](const TempDir& /*folder*/) { return Arguments{"--access-log", "-"}; };
  static const std::vector<Attack> kAttacks = {
      {"memory bomb", "16 x 128 prompts x n 128 x 4,000 tokens, 20 logprobs", no_arguments,
       memory_bombs},
      {"slow readers", "32 streams x n 8, 1.5 KB per token, not read", no_arguments, slow_readers},
      {"log not read", "3,000 requests, --access-log - paused", log, unread_log},
      {"log closed", "3,000 requests, reader of --access-log - has left", log, closed_log},
      {"DNS rebinding", "6 requests with a foreign Host or Origin", no_arguments, foreign_names},
      {"starvation", "2 x 512 prompts x n 4 x 400 tokens", no_arguments, starvation},
      {"large texts", "5 texts of 26 MiB at once", no_arguments, large_texts, 1024},
      {"large lists", "4 lists of 13 million tokens at once", no_arguments, large_lists, 4096},
      {"embeddings", "2,048 texts of 100 words", no_arguments, many_embeddings},
      {"model starvation", "4 clients of one model without a pause", two_models, model_starvation},
      {"request smuggling", "9 ambiguous framings with a second request", no_arguments, smuggling},
      {"slow senders", "400 connections, 10 bytes/s", short_timeouts, slow_senders},
      {"disconnects", "4 x 500 streams, half with a reset", no_arguments, disconnects},
      {"hard JSON", "100 bodies: 100,000 levels, NaN, 2^64, 1e999", no_arguments, hard_json},
      {"truncated model", "the file of a mapped model in use cut to 1 MiB", copied_model,
       truncated_model},
      {"mutated requests", "random changes of valid requests, all paths", no_arguments,
       mutated_requests},
  };
  return kAttacks;
}

}  // namespace graft::bench
