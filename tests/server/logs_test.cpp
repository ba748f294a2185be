// Logs of graft serve whose readers pause, leave or have a full disk: the server keeps serving.

#include <chrono>
#include <csignal>
#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include "graft/base/system/temp_dir.h"

#include "tests/program.h"
#include "tests/server/server_process.h"

namespace graft::tests {
namespace {

using Clock = std::chrono::steady_clock;

// The sum of the lines that were dropped, of all logs.
double num_dropped(const ServerProcess& server) {
  const std::string text = get(server, "/metrics").body;
  const std::string name = "\ngraft:log_lines_dropped_total{";
  double sum = 0;
  for (std::size_t at = text.find(name); at != std::string::npos; at = text.find(name, at + 1))
    sum += std::atof(text.c_str() + text.find(' ', at + 1));
  return sum;
}

// Requests whose lines in the access log have about 20 KB.
void request_long_paths(const ServerProcess& server, int count) {
  Client client(server.port());
  for (int i = 0; i < count; ++i) {
    client.send(request_text("GET", "/" + std::string(20'000, 'x')));
    ASSERT_EQ(client.read_reply().status, 404) << "request " << i;
  }
}

void expect_exit_on_sigterm(ServerProcess& server) {
  const auto start = Clock::now();
  server.signal(SIGTERM);
  EXPECT_EQ(server.wait(), 0);
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(20));
}

// ServerProcess reads only the first line of standard output: the pipe fills after 64 KiB.
TEST(ServerLogs, APausedReaderDoesNotBlockService) {
  ServerProcess server({"--access-log", "-"});
  request_long_paths(server, 500);
  EXPECT_GT(num_dropped(server), 0);
  EXPECT_EQ(get(server, "/health").status, 200);
  expect_exit_on_sigterm(server);
}

TEST(ServerLogs, AReaderThatLeavesDoesNotEndTheServer) {
  ServerProcess server({"--access-log", "-"});
  server.close_output();
  request_long_paths(server, 20);
  EXPECT_TRUE(eventually([&] { return num_dropped(server) >= 20; }));
  expect_exit_on_sigterm(server);
}

TEST(ServerLogs, AFullDiskDoesNotEndTheServer) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "needs /dev/full";
  ServerProcess server({"--access-log", "/dev/full"});
  request_long_paths(server, 20);
  EXPECT_TRUE(eventually([&] { return num_dropped(server) >= 20; }));
  expect_exit_on_sigterm(server);
}

}  // namespace
}  // namespace graft::tests
