// Limits of graft serve: invalid and oversized requests, slow clients, disconnects, access
// control, TLS.

#include <chrono>
#include <csignal>
#include <fstream>
#include <string>

#include <gtest/gtest.h>
#include <openssl/ssl.h>
#include <unistd.h>

#include "graft/testing/shared_data.h"

#include "tests/program.h"
#include "tests/server/server_process.h"

namespace graft::tests {
namespace {

TEST(ServerLimits, RejectsInvalidRequests) {
  const ServerProcess server({"--max-body-mib", "1", "--max-model-len", "128"});
  const auto status = [&](const std::string& body) {
    const Reply reply = ask(server, "POST", kChat, body);
    EXPECT_TRUE(reply.json()["error"]["message"].is_string()) << body << reply.body;
    return reply.status;
  };
  EXPECT_EQ(status(""), 400);
  EXPECT_EQ(status("{"), 400);
  EXPECT_EQ(status("[]"), 400);
  EXPECT_EQ(status("{\"messages\":\"\xff\xfe\"}"), 400);
  EXPECT_EQ(status(std::string(100'000, '[')), 400);
  EXPECT_EQ(status(R"({"a":)" + std::string(500, '[') + std::string(500, ']') + "}"), 400);
  EXPECT_EQ(status(R"({"messages":[]})"), 400);
  EXPECT_EQ(status(R"({"messages":[{"role":"user"}]})"), 400);
  EXPECT_EQ(
      status(
          R"({"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"x"}}]}]})"),
      400);
  EXPECT_EQ(status(chat_body({{"response_format", {{"type", "xml"}}}}).dump()), 400);
  EXPECT_EQ(status(chat_body({{"guided_json", {{"frobnicate", 1}}}}).dump()), 400);
  EXPECT_EQ(status(chat_body({{"model", "other"}}).dump()), 404);
  EXPECT_EQ(status(chat_body({{"logit_bias", {{"99999999", 1}}}}).dump()), 400);
  EXPECT_EQ(
      status(chat_body({{"allowed_token_ids", {0}}, {"stop_token_ids", {0}}, {"min_tokens", 1}})
                 .dump()),
      400);
  std::string words;
  for (int i = 0; i < 300; ++i)
    words += "word ";
  EXPECT_EQ(status(chat_body({{"messages", {{{"role", "user"}, {"content", words}}}}}).dump()),
            400);
  EXPECT_EQ(status(std::string(2U << 20U, ' ')), 413);
  EXPECT_EQ(ask(server, "GET", kChat).status, 405);
  EXPECT_EQ(ask(server, "GET", "/nowhere").status, 404);
  EXPECT_EQ(ask(server, "POST", kChat, "{}", {{"X-Long", std::string(100'000, 'x')}}).status, 431);
  EXPECT_EQ(post(server, kChat, chat_body()).status, 200) << "the server keeps serving";
}

TEST(ServerLimits, RejectsInvalidHttp) {
  const ServerProcess server;
  for (const std::string& text :
       {std::string("hello\r\n\r\n"), std::string("GET / HTTP/9.9\r\n\r\n"), std::string(64, '\0'),
        std::string("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n"),
        std::string("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nTransfer-Encoding: "
                    "chunked\r\n\r\n"),
        std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11)}) {
    Client client(server.port());
    client.send(text);
    const Reply reply = client.read_reply();
    EXPECT_TRUE(reply.status == 400 || reply.status == 0) << text << reply.status;
  }
  // A client that disconnects in the middle of a body.
  Client cut(server.port());
  cut.send("POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{");
  cut.close();
  EXPECT_EQ(get(server, "/health").status, 200);
}

TEST(ServerLimits, KeepsConnectionsAliveAndSupportsPipelining) {
  const ServerProcess server;
  Client client(server.port());
  // Repeated so that a request arrives at every moment of the previous response.
  for (int i = 0; i < 1000; ++i) {
    client.send(request_text("GET", "/health"));
    ASSERT_EQ(client.read_reply().status, 200) << i;
  }
  client.send(request_text("HEAD", "/health"));
  EXPECT_EQ(client.read_reply(false).headers.at("content-length"), "15");
  // Pipelined: a stream and a second request.
  client.send(request_text("POST", kChat, chat_body({{"stream", true}}).dump()) +
              request_text("GET", "/health"));
  EXPECT_EQ(events(client.read_reply().body).back(), "[DONE]");
  EXPECT_EQ(client.read_reply().json()["status"], "ok");
  client.send("POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: " +
              std::to_string(chat_body().dump().size()) + "\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_EQ(client.read_reply(false).status, 100);
  client.send(chat_body().dump());
  EXPECT_EQ(client.read_reply().status, 200);

  Client http10(server.port());
  const std::string body = chat_body({{"stream", true}}).dump();
  http10.send("POST /v1/chat/completions HTTP/1.0\r\nContent-Length: " +
              std::to_string(body.size()) + "\r\n\r\n" + body);
  const Reply reply = http10.read_reply();
  EXPECT_FALSE(reply.headers.contains("transfer-encoding"));
  EXPECT_EQ(events(reply.body).back(), "[DONE]");
}

TEST(ServerLimits, DisconnectsAbortSequences) {
  const ServerProcess server;
  {
    Client streaming(server.port());
    streaming.post(kChat, endless_body());
    streaming.read_until("\"content\":\"6\"");
    Client waiting(server.port());
    waiting.post(kChat, chat_body({{"ignore_eos", true}}));
    EXPECT_TRUE(eventually([&] { return metric(server, "vllm:num_requests_running") == 2; }));
  }
  const std::string aborted = ",finished_reason=\"abort\"";
  EXPECT_TRUE(
      eventually([&] { return metric(server, "vllm:request_success_total", aborted) == 2; }));
  EXPECT_EQ(metric(server, "vllm:num_requests_running"), 0);
}

TEST(ServerLimits, FullQueueReturns429) {
  const ServerProcess server({"--max-num-seqs", "1", "--max-queue", "1", "--ping-seconds", "0.05"});
  Client running(server.port());
  running.post(kChat, endless_body());
  running.read_until("\"content\":\"6\"");
  Client waiting(server.port());
  waiting.post(kChat, endless_body());
  EXPECT_FALSE(waiting.read_until(": keep-alive\n\n").empty())
      << "queued streams get keep-alive comments";
  const Reply third = post(server, kChat, chat_body());
  EXPECT_EQ(third.status, 429);
  EXPECT_EQ(third.headers.at("retry-after"), "1");
  EXPECT_EQ(third.json()["error"]["type"], "rate_limit_error");
  EXPECT_EQ(post(server, "/api/chat", {{"model", "sprout"}, {"messages", chat_body()["messages"]}})
                .status,
            429);
  running.close();
  EXPECT_FALSE(waiting.read_until("\"content\":\"6\"").empty()) << "the queued request runs now";
  waiting.close();
  EXPECT_TRUE(eventually([&] { return post(server, kChat, chat_body()).status == 200; }));
}

TEST(ServerLimits, TimesOutSlowHeaders) {
  const ServerProcess server({"--header-timeout", "1"});
  Client silent(server.port());
  Client slow(server.port());
  slow.send("POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nX-A: ");
  for (int i = 0; i < 30; ++i) {
    slow.send("a");  // single bytes do not extend the timeout
    ::usleep(100'000);
  }
  EXPECT_EQ(slow.read_until("\n"), "");
  EXPECT_EQ(silent.read_until("\n"), "");
  EXPECT_EQ(get(server, "/health").status, 200);
}

TEST(ServerLimits, TimesOutSlowBodies) {
  const ServerProcess server({"--body-timeout", "1"});
  Client slow(server.port());
  slow.send(
      "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{");
  for (int i = 0; i < 20; ++i) {
    slow.send(" ");
    ::usleep(100'000);
  }
  EXPECT_EQ(slow.read_until("\n"), "");
}

TEST(ServerLimits, ClosesIdleConnections) {
  const ServerProcess server({"--idle-timeout", "0.5"});
  Client client(server.port());
  client.send(request_text("GET", "/health"));
  EXPECT_EQ(client.read_reply().status, 200);
  EXPECT_EQ(client.read_until("\n"), "");
}

TEST(ServerLimits, LimitsTheNumberOfConnections) {
  const ServerProcess server({"--max-connections", "2"});
  Client first(server.port());
  Client second(server.port());
  for (Client* client : {&first, &second}) {
    client->send(request_text("GET", "/health"));
    EXPECT_EQ(client->read_reply().status, 200);
  }
  Client third(server.port());
  third.send(request_text("GET", "/health"));
  EXPECT_FALSE(third.has_input(300)) << "no connection slot is free";
  first.close();
  EXPECT_EQ(third.read_reply().status, 200) << "a slot was freed";
}

TEST(ServerLimits, DisconnectsClientsThatDoNotRead) {
  const ServerProcess server({"--stream-buffer-kib", "16", "--write-timeout", "1"});
  Client slow(server.port(), 4096);
  slow.post(kChat, chat_body({{"stream", true},
                              {"ignore_eos", true},
                              {"temperature", 1},
                              {"n", 8},
                              {"logprobs", true},
                              {"top_logprobs", 20}}));
  EXPECT_EQ(post(server, kChat, chat_body()).status, 200) << "others are served meanwhile";
  EXPECT_TRUE(eventually([&] {
    return metric(server, "vllm:request_success_total", ",finished_reason=\"abort\"") == 8;
  }));
}

// Input during a response starts another read, which must not end with the time of a write.
// A fast machine needs several samples to stream for longer than the timeout.
TEST(ServerLimits, StreamsOutliveTheWriteTimeout) {
  const ServerProcess server({"--write-timeout", "0.5"});
  bool outlived = false;
  for (int num_samples = 1; !outlived && num_samples <= 64; num_samples *= 2) {
    Client client(server.port());
    client.post(
        kChat,
        chat_body(
            {{"stream", true}, {"ignore_eos", true}, {"max_tokens", 1000}, {"n", num_samples}}));
    const auto start = std::chrono::steady_clock::now();
    client.read_until("\n\n");
    client.send(request_text("GET", "/health"));
    ASSERT_TRUE(client.read_until("data: [DONE]").ends_with("data: [DONE]"));
    outlived = std::chrono::steady_clock::now() - start > std::chrono::seconds(1);
    ASSERT_TRUE(client.read_until(R"("status":"ok")").ends_with(R"("status":"ok")"));
  }
  EXPECT_TRUE(outlived) << "too fast";
}

TEST(ServerLimits, RequiresApiKeysAndSeparatesTheirCaches) {
  const TempDir folder;
  std::ofstream(folder / "keys")
      << "one\nsha256:3fc4ccfe745870e2c0d99f71f30ff0656c8dedd41cc1d7d3d376b0dbe685e2f3\n";
  const ServerProcess server({"--api-key-file", folder / "keys"});
  EXPECT_EQ(post(server, kChat, chat_body()).status, 401);
  EXPECT_EQ(post(server, kChat, chat_body(), {{"Authorization", "Bearer wrong"}}).status, 401);
  EXPECT_EQ(post(server, "/api/chat", {{"model", "sprout"}}).json()["error"].is_string(), true);
  EXPECT_EQ(get(server, "/metrics").status, 401);
  EXPECT_EQ(get(server, "/health").status, 200);
  const auto num_cached = [&](const Headers& headers) {
    const Json json = post(server, kChat, chat_body(), headers).json();
    return json["usage"]["prompt_tokens_details"].value("cached_tokens", -1);
  };
  EXPECT_EQ(num_cached({{"Authorization", "Bearer one"}}), 0);
  EXPECT_EQ(num_cached({{"x-api-key", "two"}}), 0);
  EXPECT_GT(num_cached({{"x-api-key", "one"}}), 0);
  EXPECT_GT(num_cached({{"Authorization", "Bearer two"}}), 0);
}

TEST(ServerLimits, AcceptsOnlyConfiguredOrigins) {
  const ServerProcess server({"--cors-origin", "https://chat.example"});
  const Headers good = {{"Origin", "https://chat.example"}};
  const Headers bad = {{"Origin", "https://evil.example"}};
  const Reply preflight = ask(server, "OPTIONS", kChat, {}, good);
  EXPECT_EQ(preflight.status, 204);
  EXPECT_EQ(preflight.headers.at("access-control-allow-origin"), "https://chat.example");
  EXPECT_EQ(post(server, kChat, chat_body({{"stream", true}}), good)
                .headers.at("access-control-allow-origin"),
            "https://chat.example");
  EXPECT_EQ(post(server, kChat, chat_body(), bad).status, 403);
  EXPECT_EQ(post(server, kChat, chat_body(), {{"Origin", "http://localhost:3000"}}).status, 200);
}

// A minimal TLS client without certificate checks.
std::string ask_over_tls(std::uint16_t port, const std::string& request) {
  SSL_CTX* context = SSL_CTX_new(TLS_client_method());
  SSL* tls = SSL_new(context);
  BIO* connection = BIO_new_connect(("127.0.0.1:" + std::to_string(port)).c_str());
  std::string reply;
  if (BIO_do_connect(connection) == 1) {
    SSL_set_bio(tls, connection, connection);
    if (SSL_connect(tls) == 1) {
      SSL_write(tls, request.data(), static_cast<int>(request.size()));
      char bytes[4096];
      for (int count = 0; (count = SSL_read(tls, bytes, sizeof(bytes))) > 0;)
        reply.append(bytes, static_cast<std::size_t>(count));
    }
  }
  SSL_free(tls);
  SSL_CTX_free(context);
  return reply;
}

TEST(ServerLimits, ServesTls) {
  const TempDir folder;
  const Outcome made =
      run_command({"/usr/bin/env", "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                   "ec_paramgen_curve:prime256v1", "-nodes", "-subj", "/CN=localhost", "-days", "2",
                   "-keyout", folder / "key.pem", "-out", folder / "cert.pem"});
  if (made.exit_code != 0) GTEST_SKIP() << "openssl is needed to make a certificate";
  const ServerProcess server({"--tls-cert", folder / "cert.pem", "--tls-key", folder / "key.pem"});
  EXPECT_NE(server.first_line().find("https://"), std::string::npos);
  const Headers close = {{"Connection", "close"}};
  const std::string reply = ask_over_tls(
      server.port(), request_text("POST", kChat, chat_body({{"stream", true}}).dump(), close));
  EXPECT_NE(reply.find("[DONE]"), std::string::npos) << reply;
  Client plain(server.port());
  plain.send(request_text("GET", "/health"));
  EXPECT_EQ(plain.read_reply().status, 0);
}

}  // namespace
}  // namespace graft::tests
