#include "bench/server/misbehaviour.h"

#include <array>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "graft/base/text/str.h"

#include "bench/server/bodies.h"
#include "tests/server/mutation.h"
#include "tests/server/server_process.h"

namespace graft::bench {
namespace {

using tests::Client;
using tests::request_text;

void sleep_ms(int milliseconds) {
  std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
}

std::string post_text(const std::string& path, const std::string& body, const std::string& key) {
  return request_text("POST", path, body, {{"x-api-key", key}});
}

// Sends, reads for up to `milliseconds`, and resets the connection if no response came.
void send_and_leave(std::uint16_t port, const std::string& text, int milliseconds) {
  Client client(port);
  client.set_read_timeout(std::chrono::milliseconds(milliseconds));
  client.send(text);
  client.read_reply();
}

void ask_for_a_memory_bomb(std::uint16_t port, const std::string& key, std::uint64_t /*number*/) {
  send_and_leave(port, post_text(kCompletions, memory_bomb().dump(), key), 5000);
}

void ask_for_many_answers(std::uint16_t port, const std::string& key, std::uint64_t /*number*/) {
  send_and_leave(port, post_text(kCompletions, many_answers(256, 8, 100).dump(), key), 3000);
}

void ask_for_many_embeddings(std::uint16_t port, const std::string& key, std::uint64_t /*number*/) {
  const Json body = {{"input", texts(2048)}};
  send_and_leave(port, post_text("/v1/embeddings", body.dump(), key), 3000);
}

void send_a_large_body(std::uint16_t port, const std::string& key, std::uint64_t number) {
  static const std::string kText = long_text(26U << 20U);
  static const std::string kTokens = long_token_list(26U << 20U);
  const bool is_text = number % 2 == 0;
  send_and_leave(
      port, post_text(is_text ? tests::kChat : kCompletions, is_text ? kText : kTokens, key), 5000);
}

void read_slowly(std::uint16_t port, const std::string& key, std::uint64_t /*number*/) {
  Client client(port, 4096);
  client.send(post_text(tests::kChat, large_stream(4, 200).dump(), key));
  sleep_ms(4000);
}

void leave_within_a_stream(std::uint16_t port, const std::string& key, std::uint64_t number) {
  Client client(port);
  client.set_read_timeout(std::chrono::milliseconds(5000));
  client.send(post_text(tests::kChat, large_stream(1, 500).dump(), key));
  for (std::uint64_t left = number % 5; left > 0; --left)
    client.read_until("\n\n");
  if (number % 2 == 0) client.reset();
}

void send_slowly(std::uint16_t port, const std::string& key, std::uint64_t number) {
  const std::string text = post_text(tests::kChat, large_stream(1, 1).dump(), key);
  Client client(port);
  const std::size_t start = number % 2 == 0 ? 0 : text.find("\r\n\r\n") + 4;
  client.send(text.substr(0, start));
  for (std::size_t i = 0; i < 20; ++i) {
    client.send(text.substr(start + i, 1));
    sleep_ms(200);
  }
}

void stay_silent(std::uint16_t port, const std::string& /*key*/, std::uint64_t /*number*/) {
  const Client client(port);
  sleep_ms(3000);
}

void smuggle(std::uint16_t port, const std::string& key, std::uint64_t number) {
  constexpr std::array kCodings = {"chunked, gzip", "xchunked", "gzip, chunked",
                                   "chunked, chunked"};
  send_and_leave(port,
                 str("POST ", tests::kChat, " HTTP/1.1\r\nHost: localhost\r\nx-api-key: ", key,
                     "\r\nTransfer-Encoding: ", kCodings[number % kCodings.size()],
                     "\r\n\r\n0\r\n\r\nGET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"),
                 3000);
}

void name_a_foreign_host(std::uint16_t port, const std::string& key, std::uint64_t /*number*/) {
  send_and_leave(
      port, str("GET /v1/models HTTP/1.1\r\nHost: evil.example\r\nx-api-key: ", key, "\r\n\r\n"),
      3000);
  sleep_ms(100);
}

void send_mutated(std::uint16_t port, const std::string& key, std::uint64_t number) {
  static const std::vector<std::string> kPaths = tests::request_paths();
  send_and_leave(port, tests::mutated_request(number, kPaths[number % kPaths.size()], key), 500);
  sleep_ms(20);
}

constexpr std::array kMisbehaviours = {
    Misbehaviour{"memory bomb", ask_for_a_memory_bomb},
    Misbehaviour{"2,048 answers", ask_for_many_answers},
    Misbehaviour{"2,048 embeddings", ask_for_many_embeddings},
    Misbehaviour{"body of 26 MiB", send_a_large_body},
    Misbehaviour{"slow reader", read_slowly},
    Misbehaviour{"leaves within a stream", leave_within_a_stream},
    Misbehaviour{"slow sender", send_slowly},
    Misbehaviour{"silent connection", stay_silent},
    Misbehaviour{"request smuggling", smuggle},
    Misbehaviour{"foreign host", name_a_foreign_host},
    Misbehaviour{"mutated request", send_mutated},
};

}  // namespace

std::span<const Misbehaviour> misbehaviours() {
  return kMisbehaviours;
}

}  // namespace graft::bench
