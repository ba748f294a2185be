// Host names, proxies and HTTP framing of graft serve, as an attacker would send them.

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/program.h"
#include "tests/server/server_process.h"

namespace graft::tests {
namespace {

// Sends the lines as a request head, without adding any.
Reply send_head(const ServerProcess& server, const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines)
    text += line + "\r\n";
  Client client(server.port());
  client.send(text + "\r\n");
  return client.read_reply();
}

int status_for_host(const ServerProcess& server, const std::string& host) {
  return send_head(server, {"GET /v1/models HTTP/1.1", "Host: " + host}).status;
}

// DNS rebinding: a page of evil.example, whose name now resolves to 127.0.0.1.
TEST(ServerHosts, RejectsForeignHostNames) {
  const ServerProcess server;
  for (const char* host : {"localhost", "LOCALHOST:8000", "a.localhost", "127.0.0.1", "[::1]:8000",
                           "192.168.1.5:8000"})
    EXPECT_EQ(status_for_host(server, host), 200) << host;
  for (const char* host :
       {"evil.example", "evil.example:8000", "localhost.evil.example", "127.0.0.1.evil.example"})
    EXPECT_EQ(status_for_host(server, host), 403) << host;
  const Reply reply = send_head(server, {"GET /v1/models HTTP/1.1", "Host: evil.example:8000"});
  EXPECT_EQ(reply.json()["error"]["code"], "host_not_allowed");
  EXPECT_NE(reply.body.find("--allowed-host evil.example"), std::string::npos) << reply.body;
  EXPECT_EQ(send_head(server, {"POST /api/chat HTTP/1.1", "Host: evil.example",
                               "Origin: http://evil.example", "Content-Length: 0"})
                .status,
            403);
}

TEST(ServerHosts, AllowsConfiguredHostsAndThePublicUrl) {
  const ServerProcess server(
      {"--allowed-host", "graft.lan", "--public-url", "https://chat.example"});
  EXPECT_EQ(status_for_host(server, "graft.lan:8000"), 200);
  EXPECT_EQ(status_for_host(server, "chat.example"), 200);
  EXPECT_EQ(status_for_host(server, "other.example"), 403);
  // Behind nginx's default configuration: Host is the address of the upstream.
  const Reply reply =
      ask(server, "POST", "/tokenize", R"({"prompt":"a"})", {{"Origin", "https://chat.example"}});
  EXPECT_EQ(reply.status, 200) << reply.body;
  const ServerProcess open({"--allowed-host", "*"});
  EXPECT_EQ(status_for_host(open, "evil.example"), 200);
}

TEST(ServerHosts, BelievesForwardedHeadersOnlyFromTrustedProxies) {
  const std::vector<std::string> head = {"GET /v1/models HTTP/1.1", "Host: localhost",
                                         "X-Forwarded-For: 203.0.113.9",
                                         "X-Forwarded-Host: evil.example"};
  const ServerProcess direct;
  EXPECT_EQ(send_head(direct, head).status, 200) << "the headers are ignored";
  const ServerProcess proxied({"--trusted-proxy", "127.0.0.0/8"});
  EXPECT_EQ(send_head(proxied, head).status, 403) << "the host that the client used";
}

TEST(ServerHosts, RejectsWrongValues) {
  for (const auto& [flag, value] : std::vector<std::pair<std::string, std::string>>{
           {"--allowed-host", "a b"},
           {"--public-url", "chat.example"},
           {"--public-url", "https://chat.example/path"},
           {"--trusted-proxy", "nginx"},
           {"--trusted-proxy", "10.0.0.0/33"},
           {"--drain-seconds", "0"}}) {
    const Outcome outcome = run_program({"serve", "--port", "0", flag, value});
    EXPECT_EQ(outcome.exit_code, 2) << flag << " " << value << outcome.err;
    EXPECT_NE(outcome.err.find(flag), std::string::npos) << outcome.err;
  }
}

// The body of these requests would be read as the next request, or differently by a proxy.
TEST(ServerHosts, RejectsAmbiguousFraming) {
  const ServerProcess server;
  const std::string post = "POST /tokenize HTTP/1.1";
  const std::string host = "Host: localhost";
  const std::vector<std::pair<int, std::vector<std::string>>> requests = {
      {501, {post, host, "Transfer-Encoding: chunked, gzip"}},
      {501, {post, host, "Transfer-Encoding: xchunked"}},
      {501, {post, host, "Transfer-Encoding: gzip, chunked"}},
      {501, {post, host, "Transfer-Encoding: identity"}},
      {400, {post, host, "Content-Length: 3", "Transfer-Encoding: chunked"}},
      {400, {post, host, "Transfer-Encoding: chunked", "Content-Length: 3"}},
      {400, {post, host, "Content-Length: 3", "Content-Length: 4"}},
      {400, {"POST /tokenize HTTP/1.0", host, "Transfer-Encoding: chunked"}},
      {400, {post, "Content-Length: 0"}},
      {400, {post, host, "Host: localhost", "Content-Length: 0"}},
      {400, {post, "Host: a/b", "Content-Length: 0"}},
      {400, {post, "Host: user@localhost", "Content-Length: 0"}},
      {400, {"GET health HTTP/1.1", host}},
  };
  for (const auto& [status, lines] : requests) {
    const Reply reply = send_head(server, lines);
    EXPECT_EQ(reply.status, status) << lines[0] << " " << lines[1] << " " << lines.back();
    EXPECT_EQ(reply.headers.count("connection"), 1U) << "the connection is not used again";
  }
  EXPECT_EQ(send_head(server, {"GET /health HTTP/1.0"}).status, 200) << "HTTP/1.0 needs no Host";
}

TEST(ServerHosts, AcceptsAbsoluteTargetsAndNamesAllowedMethods) {
  const ServerProcess server;
  EXPECT_EQ(send_head(server, {"GET http://localhost:8000/health HTTP/1.1", "Host: x"}).status, 200)
      << "the host of the target replaces the Host header";
  EXPECT_EQ(
      send_head(server, {"GET http://evil.example/health HTTP/1.1", "Host: localhost"}).status,
      403);
  EXPECT_EQ(send_head(server, {"GET HTTP://localhost?x=1 HTTP/1.1", "Host: localhost"}).status,
            200);
  const Reply wrong = ask(server, "DELETE", "/v1/models");
  EXPECT_EQ(wrong.status, 405);
  EXPECT_EQ(wrong.headers.at("allow"), "GET, HEAD, OPTIONS");
  EXPECT_EQ(ask(server, "POST", "/health").headers.at("allow"), "GET, HEAD, OPTIONS");
  EXPECT_EQ(ask(server, "GET", "/v1/completions").headers.at("allow"), "OPTIONS, POST");
}

Json completion(int max_tokens, bool is_stream) {
  return {{"prompt", "Once"},
          {"max_tokens", max_tokens},
          {"ignore_eos", true},
          {"stream", is_stream},
          {"temperature", 0}};
}

TEST(ServerHosts, AnswersClientsThatCloseOnlyTheirSendingSide) {
  const ServerProcess server;
  ASSERT_TRUE(eventually([&] { return get(server, "/ready").status == 200; }));
  const Json want = post(server, "/v1/completions", completion(40, false)).json();
  for (const bool is_stream : {false, true}) {
    Client client(server.port());
    // Pipelined requests, then no more.
    for (int i = 0; i < 2; ++i)
      client.post("/v1/completions", completion(40, is_stream));
    client.send(request_text("GET", "/health"));
    client.shutdown_send();
    for (int i = 0; i < 2; ++i) {
      const Reply reply = client.read_reply();
      ASSERT_EQ(reply.status, 200) << i << reply.body;
      if (is_stream) {
        EXPECT_EQ(events(reply.body).back(), "[DONE]");
      } else {
        EXPECT_EQ(reply.json()["choices"], want["choices"]) << reply.body;
      }
    }
    EXPECT_EQ(client.read_reply().status, 200);
    EXPECT_TRUE(client.has_input(20'000)) << "the server closes its side";
    EXPECT_EQ(client.read_until("\n"), "");
  }
}

TEST(ServerHosts, ErrorsDoNotRevealFolders) {
  const TempDir folder;
  const std::string copy = folder / "broken.gguf";
  std::filesystem::copy_file(bundled_model(), copy);
  const ServerProcess server({"--lazy", "--model", "broken=" + copy});
  std::filesystem::resize_file(copy, 1000);
  const Reply reply = post(server, "/v1/completions", completion(1, false));
  EXPECT_EQ(reply.status, 500) << reply.body;
  EXPECT_EQ(reply.body.find(folder.path().string()), std::string::npos) << reply.body;
  EXPECT_NE(reply.body.find("broken.gguf"), std::string::npos) << reply.body;
}

}  // namespace
}  // namespace graft::tests
