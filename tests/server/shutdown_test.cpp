// Signals of graft serve: drain, reload, and those that must do nothing; systemd; limits at start.

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "graft/base/system/temp_dir.h"
#include "graft/testing/shared_data.h"

#include "tests/program.h"
#include "tests/server/server_process.h"

namespace graft::tests {
namespace {

using Clock = std::chrono::steady_clock;

// Sends SIGTERM and expects exit code 0 after `min` to `max` seconds.
void expect_exit(ServerProcess& server, double min, double max) {
  const auto start = Clock::now();
  server.signal(SIGTERM);
  EXPECT_EQ(server.wait(), 0);
  const std::chrono::duration<double> time = Clock::now() - start;
  EXPECT_GE(time.count(), min);
  EXPECT_LE(time.count(), max);
}

TEST(ServerShutdown, DrainsRunningRequestsOnSigterm) {
  ServerProcess server;
  Client streaming(server.port());
  streaming.post(kChat, chat_body({{"stream", true}, {"ignore_eos", true}, {"max_tokens", 60}}));
  streaming.read_until("\"content\":\"6\"");
  Client idle(server.port());
  idle.send(request_text("GET", "/health"));
  idle.read_reply();
  server.signal(SIGTERM);
  EXPECT_EQ(idle.read_until("\n"), "") << "idle connections are closed";
  EXPECT_NE(streaming.read_until("[DONE]").find("length"), std::string::npos);
  EXPECT_EQ(server.wait(), 0);
}

TEST(ServerShutdown, ThePortStaysOpenForTheDrainTime) {
  ServerProcess server({"--drain-seconds", "4"});
  ASSERT_TRUE(eventually([&] { return get(server, "/ready").status == 200; }));
  const auto start = Clock::now();
  server.signal(SIGTERM);
  EXPECT_TRUE(eventually([&] { return get(server, "/ready").status == 503; }));
  EXPECT_EQ(get(server, "/health").status, 200);
  const Reply refused = post(server, kChat, chat_body());
  EXPECT_EQ(refused.status, 503) << refused.body;
  EXPECT_EQ(refused.headers.at("retry-after"), "1");
  EXPECT_EQ(refused.headers.at("connection"), "close");
  ::usleep(1'000'000);
  EXPECT_EQ(get(server, "/ready").status, 503);
  EXPECT_EQ(server.wait(), 0);
  EXPECT_GE(Clock::now() - start, std::chrono::seconds(4));
  EXPECT_LE(Clock::now() - start, std::chrono::seconds(8));
}

TEST(ServerShutdown, TheDeadlineCutsBodiesAndStreams) {
  ServerProcess server({"--drain-seconds", "2"});
  Client half_sent(server.port());
  half_sent.send(
      "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n"
      "Content-Length: 100\r\n\r\n{");
  Client streaming(server.port());
  streaming.post(kChat, endless_body());
  streaming.read_until("\"content\":\"6\"");
  expect_exit(server, 1.9, 6);
}

TEST(ServerShutdown, SecondSigtermStopsImmediately) {
  ServerProcess server({"--drain-seconds", "100"});
  Client streaming(server.port());
  streaming.post(kChat, endless_body());
  streaming.read_until("\"content\":\"6\"");
  server.signal(SIGTERM);
  EXPECT_TRUE(eventually([&] { return get(server, "/ready").status == 503; }));
  expect_exit(server, 0, 10);
}

TEST(ServerShutdown, SigtermStopsWhileLoading) {
  ServerProcess server;
  Client waiting(server.port());
  waiting.post(kChat, chat_body());
  server.signal(SIGTERM);
  EXPECT_EQ(server.wait(), 0);
}

TEST(ServerShutdown, OtherSignalsDoNothing) {
  ServerProcess server;
  for (const int number : {SIGUSR1, SIGPIPE, SIGHUP, SIGHUP}) {
    server.signal(number);
    EXPECT_EQ(get(server, "/health").status, 200) << number;
  }
  expect_exit(server, 0, 20);
}

TEST(ServerShutdown, SighupReadsKeysAndReopensTheLog) {
  const TempDir folder;
  std::ofstream(folder / "keys") << "one\n";
  const ServerProcess server({"--api-key-file", folder / "keys", "--access-log", folder / "log"});
  const auto status = [&](const std::string& key) {
    return ask(server, "GET", "/v1/models", {}, {{"x-api-key", key}}).status;
  };
  EXPECT_EQ(status("one"), 200);
  EXPECT_EQ(status("two"), 401);
  std::ofstream(folder / "keys") << "two\n";
  std::filesystem::rename(folder / "log", folder / "log.1");
  server.signal(SIGHUP);
  EXPECT_TRUE(eventually([&] { return status("two") == 200; }));
  EXPECT_EQ(status("one"), 401);
  EXPECT_TRUE(eventually([&] {
    std::error_code error;
    return std::filesystem::file_size(folder / "log", error) > 0 && !error;
  }));
  // A file without keys must not open the server.
  std::ofstream(folder / "keys") << "\n";
  server.signal(SIGHUP);
  ::usleep(300'000);
  EXPECT_EQ(status("two"), 200);
  EXPECT_EQ(status("one"), 401);
}

TEST(ServerShutdown, SighupReadsTheCertificate) {
  const TempDir folder;
  const auto make = [&](const std::string& name) {
    return run_command({"/usr/bin/env", "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                        "ec_paramgen_curve:prime256v1", "-nodes", "-subj", "/CN=" + name, "-days",
                        "2", "-keyout", folder / "key.pem", "-out", folder / "cert.pem"})
        .exit_code;
  };
  if (make("before") != 0) GTEST_SKIP() << "openssl is needed to make a certificate";
  const ServerProcess server({"--tls-cert", folder / "cert.pem", "--tls-key", folder / "key.pem"});
  const auto subject = [&] {
    return run_command({"/bin/sh", "-c",
                        "openssl s_client -connect 127.0.0.1:" + std::to_string(server.port()) +
                            " </dev/null 2>/dev/null | openssl x509 -noout -subject"})
        .out;
  };
  EXPECT_NE(subject().find("before"), std::string::npos) << subject();
  ASSERT_EQ(make("after"), 0);
  server.signal(SIGHUP);
  EXPECT_TRUE(eventually([&] { return subject().find("after") != std::string::npos; }));
  std::ofstream(folder / "cert.pem") << "not a certificate";
  server.signal(SIGHUP);
  ::usleep(300'000);
  EXPECT_NE(subject().find("after"), std::string::npos) << "the old one stays in use";
}

// The datagrams that systemd would receive.
class NotifySocket {
 public:
  explicit NotifySocket(const std::string& path) : socket_(::socket(AF_UNIX, SOCK_DGRAM, 0)) {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof(address.sun_path) - 1);
    EXPECT_EQ(::bind(socket_, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    const timeval limit = {.tv_sec = 30, .tv_usec = 0};
    ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
  }
  NotifySocket(const NotifySocket&) = delete;
  NotifySocket& operator=(const NotifySocket&) = delete;
  ~NotifySocket() { ::close(socket_); }

  // Reads up to and including the message.
  bool receives(const std::string& wanted) const {
    char bytes[256];
    for (int i = 0; i < 1000; ++i) {
      const ssize_t count = ::recv(socket_, bytes, sizeof(bytes), 0);
      if (count <= 0) return false;
      if (std::string(bytes, static_cast<std::size_t>(count)).starts_with(wanted)) return true;
    }
    return false;
  }

 private:
  int socket_;
};

TEST(ServerShutdown, NotifiesSystemd) {
  const TempDir folder;
  const std::string path = folder / "notify";
  const NotifySocket socket(path);
  ::setenv("NOTIFY_SOCKET", path.c_str(), 1);
  ::setenv("WATCHDOG_USEC", "200000", 1);
  ServerProcess server;
  ::unsetenv("NOTIFY_SOCKET");
  ::unsetenv("WATCHDOG_USEC");
  EXPECT_TRUE(socket.receives("READY=1"));
  for (int i = 0; i < 3; ++i)
    EXPECT_TRUE(socket.receives("WATCHDOG=1"));
  server.signal(SIGHUP);
  EXPECT_TRUE(socket.receives("RELOADING=1\nMONOTONIC_USEC="));
  EXPECT_TRUE(socket.receives("READY=1"));
  server.signal(SIGTERM);
  EXPECT_TRUE(socket.receives("STOPPING=1"));
  EXPECT_EQ(server.wait(), 0);
}

TEST(ServerShutdown, ReportsLimitsAtStart) {
  const std::string serve = std::string(GRAFT_PROGRAM) +
                            " serve --port 0 --model sprout=" + bundled_model() +
                            " & sleep 2; kill $!; wait $!";
  const Outcome few = run_command({"/bin/sh", "-c", "ulimit -n 200; ulimit -c 0; " + serve});
  EXPECT_EQ(few.exit_code, 0) << few.err;
  EXPECT_NE(few.err.find("open files: the limit is 200, so max 72 connections"), std::string::npos)
      << few.err;
  EXPECT_EQ(few.err.find("core dumps"), std::string::npos) << few.err;
  const Outcome none = run_command({"/bin/sh", "-c", "ulimit -n 40; exec " + serve});
  EXPECT_EQ(none.exit_code, 2) << none.err;
  EXPECT_NE(none.err.find("open files: the limit is 40"), std::string::npos) << none.err;
}

TEST(ServerShutdown, EmptyKeyVariableIsAnError) {
  ::setenv("GRAFT_API_KEYS", " , ", 1);
  const Outcome outcome = run_program({"serve", "--port", "0", "--model", bundled_model()});
  ::unsetenv("GRAFT_API_KEYS");
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_NE(outcome.err.find("GRAFT_API_KEYS"), std::string::npos) << outcome.err;
}

// All workers tokenize large prompts: the network thread answers the probes.
TEST(ServerShutdown, MonitoringDoesNotWaitForWorkers) {
  const ServerProcess server({"--max-body-mib", "64"});
  ASSERT_TRUE(eventually([&] { return get(server, "/ready").status == 200; }));
  const std::size_t size = kUnderSanitizers ? 512U << 10U : 4U << 20U;
  std::string text;
  while (text.size() < size)
    text += "word" + std::to_string(text.size()) + " ";
  const Json body = {{"prompt", text}};
  std::vector<std::unique_ptr<Client>> busy;
  for (int i = 0; i < 8; ++i) {
    busy.push_back(std::make_unique<Client>(server.port()));
    busy.back()->post("/tokenize", body);
  }
  for (int i = 0; i < 20; ++i) {
    for (const char* path : {"/health", "/ready", "/metrics"}) {
      const auto start = Clock::now();
      EXPECT_EQ(get(server, path).status, 200);
      EXPECT_LT(Clock::now() - start, std::chrono::seconds(kUnderSanitizers ? 15 : 3)) << path;
    }
    ::usleep(50'000);
  }
}

}  // namespace
}  // namespace graft::tests
