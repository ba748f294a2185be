// Fault tests of graft serve. Clients that send invalid data, disconnect or stall must not affect a
// well-behaved client and must leak no connections or sequences. A device that fails must end the
// running requests with an error, and later requests must work.

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

#include "graft/base/system/temp_dir.h"
#include "graft/base/text/str.h"
#include "graft/testing/shared_data.h"

#include "tests/server/keep_alive_client.h"
#include "tests/server/mutated_load.h"
#include "tests/server/mutation.h"
#include "tests/server/server_process.h"

namespace graft::tests {
namespace {

using Seconds = std::chrono::duration<double>;
using Clients = std::vector<std::unique_ptr<Client>>;

constexpr Seconds kMaxTime(kUnderSanitizers ? 300 : 30);

std::string chat_text(const Json& more = Json::object()) {
  Json body = {{"messages", {{{"role", "user"}, {"content", "Tell me a story."}}}},
               {"ignore_eos", true}};
  body.update(more);
  return request_text("POST", kChat, body.dump());
}

std::size_t num_open_files(const ServerProcess& server) {
  const std::filesystem::path folder = str("/proc/", server.pid(), "/fd");
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder),
                                                std::filesystem::directory_iterator()));
}

Clients connect(const ServerProcess& server, std::size_t count) {
  Clients clients;
  for (std::size_t i = 0; i < count; ++i)
    clients.push_back(std::make_unique<Client>(server.port()));
  return clients;
}

// GRAFT_MUTATIONS sets the number per path.
int num_mutations() {
  const char* text = std::getenv("GRAFT_MUTATIONS");
  return text == nullptr ? 300 : std::max(1, std::atoi(text));
}

void mutated_requests(const ServerProcess& server) {
  MutatedLoad all;
  int total = 0;
  for (const std::string& path : request_paths()) {
    const MutatedLoad load = send_mutated(server.port(), path, num_mutations());
    total += num_mutations();
    for (const auto& [status, count] : load.statuses)
      all.statuses[status] += count;
    for (const std::string& problem : load.problems)
      ADD_FAILURE() << problem;
  }
  // Enough requests must remain valid, and enough must be rejected, to cover both paths.
  EXPECT_GT(all.count(200), total / 20) << all.text();
  EXPECT_GT(all.count(400), total / 5) << all.text();
  ::testing::Test::RecordProperty("statuses", all.text());
}

// Disconnect within the request head, the body, before the response and during a stream; half of
// them with a TCP reset.
void disconnecting_clients(const ServerProcess& server) {
  const std::string request = chat_text();
  const std::size_t head = request.find("\r\n\r\n");
  for (std::size_t i = 0; i < 200; ++i) {
    Client client(server.port());
    switch (i % 4) {
      case 0:
        client.send(request.substr(0, 1 + i % head));
        break;
      case 1:
        client.send(request.substr(0, head + 4 + i % 40));
        break;
      case 2:
        client.send(request);
        break;
      default:
        client.send(chat_text({{"stream", true}, {"n", 1 + i % 3}, {"temperature", 1}}));
        for (std::size_t event = 0; event < 4 + i % 5; ++event)
          client.read_until("\n\n");
    }
    if (i % 8 < 4) client.reset();
  }
}

// Half-close at every moment of a response; the server must then close its side.
void half_closing_clients(const ServerProcess& server) {
  for (int i = 0; i < 2'000; ++i) {
    Client client(server.port());
    client.send(request_text("GET", "/health"));
    ::usleep(static_cast<useconds_t>(i % 200));
    client.shutdown_send();
    client.read_reply();
    ASSERT_TRUE(client.has_input(10'000)) << "connection " << i << " is still open";
  }
}

// Connections without a request, with a head but no body, and with a chunked body that never
// starts.
void stalled_connections(const ServerProcess& server) {
  const Clients silent = connect(server, 200);
  const Clients waiting = connect(server, 50);
  for (const auto& client : waiting)
    client->send(str("POST ", kChat, " HTTP/1.1\r\nHost: localhost\r\nContent-Length: ", 32U << 20U,
                     "\r\n\r\n"));
  const Clients chunked = connect(server, 50);
  for (const auto& client : chunked)
    client->send(
        str("POST ", kChat, " HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"));
  EXPECT_EQ(get(server, "/health").status, 200);
  for (const Clients* clients : {&silent, &waiting, &chunked}) {
    for (const auto& client : *clients)
      EXPECT_EQ(client->read_until("\n"), "") << "the server must time out";
  }
}

// One byte every 100 ms, of heads and of bodies (slowloris).
void slow_clients(const ServerProcess& server) {
  const Clients clients = connect(server, 60);
  for (std::size_t i = 0; i < clients.size(); i += 2)
    clients[i]->send("POST /api/chat HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{");
  for (int round = 0; round < 30; ++round) {
    for (const auto& client : clients)
      client->send(round == 0 ? "G" : "x");
    ::usleep(100'000);
  }
  for (const auto& client : clients) {
    const int status = client->read_reply().status;
    EXPECT_TRUE(status == 0 || status / 100 == 4) << status;
  }
}

// Bodies within the size limit with extreme numbers of keys, items, messages or nesting levels.
void extreme_values(const ServerProcess& server) {
  const auto repeated = [](const std::string& item, int count) {
    std::string list = item;
    for (int i = 1; i < count; ++i)
      list += "," + item;
    return list;
  };
  std::string keys = R"("k":0)";
  for (int i = 0; i < 100'000; ++i)
    keys += str(",\"k", i, "\":0");
  const std::string deep = nested_lists(100);
  const std::string hi = R"("messages":[{"role":"user","content":"Hi"}],"max_tokens":1)";
  const std::vector<std::pair<std::string, std::string>> requests = {
      {kChat, "{" + hi + "," + keys + "}"},
      {kChat, "{" + hi + R"(,"chat_template_kwargs":{)" + keys + "}}"},
      {kChat, R"({"max_tokens":1,"messages":[{"role":"user","content":"Hi",)" + keys + "}]}"},
      {kChat, "{" + hi + R"(,"tools":[{"type":"function","function":{"name":"f","parameters":{)" +
                  keys + "}}}]}"},
      {kChat, "{" + hi + R"(,"chat_template_kwargs":{"x":)" + deep + "}}"},
      {kChat, "{" + hi +
                  R"(,"tools":[{"type":"function","function":{"name":"f","parameters":{"x":)" +
                  deep + "}}}]}"},
      {kChat, "{" + hi + R"(,"stop_token_ids":[)" + repeated("1999999999", 300'000) + "]}"},
      {kChat, "{" + hi + R"(,"stop":[)" + repeated(R"("stop here")", 100'000) + "]}"},
      {kChat, R"({"messages":[)" + repeated(R"({"role":"user","content":"Hi"})", 50'000) + "]}"},
      {"/api/chat", R"({"model":"sprout",)" + hi + R"(,"options":{"num_predict":1,"stop":[)" +
                        repeated(R"("stop here")", 100'000) + "]}}"},
      {"/v1/completions", R"({"max_tokens":1,"prompt":[)" + repeated(R"("a")", 3'000) + "]}"},
      {"/v1/completions",
       R"({"max_tokens":1,"n":128,"prompt":")" + std::string(1U << 20U, 'a') + "\"}"},
      {"/tokenize", R"({"prompt":")" + std::string(4U << 20U, ' ') + "\"}"},
      {"/v1/embeddings", R"({"input":[)" + repeated("[]", 2'000) + "]}"},
      {"/v1/embeddings", R"({"model":"\ud800","input":"a"})"},
      {"/v1/models/%ff%fe%00", "{}"},
      {"/v1/messages", "{" + hi + R"(,"tools":[{"name":"f","input_schema":{)" + keys + "}}]}"},
      {"/v1/messages", R"({"max_tokens":1,"messages":[{"role":"user","content":"a"},
          {"role":"assistant","content":[{"type":"tool_use","id":"1","name":"f","input":{"x":)" +
                           deep + "}}]}]}"},
      {"/v1/messages", R"({"max_tokens":1,"messages":[)" +
                           repeated(R"({"role":"user","content":"Hi"})", 50'000) + "]}"},
      {"/v1/responses", R"({"max_output_tokens":1,"input":"Hi","metadata":{)" + keys + "}}"},
      {"/v1/responses",
       R"({"max_output_tokens":1,"input":[{"role":"user","content":"a",)" + keys + "}]}"},
      {"/v1/responses", R"({"max_output_tokens":1,"truncation":"auto","input":[)" +
                            repeated(R"({"role":"user","content":"Hi"})", 20'000) + "]}"},
      {"/v1/responses/%ff%00/input_items", "{}"},
  };
  for (const auto& [path, body] : requests) {
    const auto start = std::chrono::steady_clock::now();
    const Reply reply = ask(server, "POST", path, body);
    const Seconds time = std::chrono::steady_clock::now() - start;
    EXPECT_TRUE(reply.status == 200 || reply.status / 100 == 4)
        << reply.status << " to " << path << body.substr(0, 100);
    EXPECT_LT(time, kMaxTime) << path << body.substr(0, 100);
    if (reply.status != 200) {
      EXPECT_LT(reply.body.size(), body.size() + 10'000) << path << body.substr(0, 100);
    }
  }
}

TEST(ServerFaults, FaultyClientsDoNotAffectOthers) {
  // Short timeouts so that slow clients are cut off soon; a long queue so that no request gets 429.
  ServerProcess server({"--header-timeout", "2", "--body-timeout", "2", "--max-queue", "100000"});
  ASSERT_TRUE(eventually([&] { return get(server, "/ready").status == 200; }));
  ::usleep(300'000);  // the server closes its side of the last connection a moment later
  const std::size_t num_files = num_open_files(server);
  KeepAliveClient well_behaved(server.port());
  const std::pair<const char*, void (*)(const ServerProcess&)> scenarios[] = {
      {"disconnecting clients", disconnecting_clients},
      {"half-closing clients", half_closing_clients},
      {"stalled connections", stalled_connections},
      {"slow clients", slow_clients},
      {"extreme values", extreme_values},
      {"mutated requests", mutated_requests},
  };
  for (const auto& [name, run] : scenarios) {
    SCOPED_TRACE(name);
    const int num_before = well_behaved.num_responses();
    run(server);
    EXPECT_TRUE(eventually([&] { return well_behaved.num_responses() > num_before; }));
  }
  for (const std::string& problem : well_behaved.stop())
    ADD_FAILURE() << "the well-behaved client: " << problem;
  EXPECT_TRUE(eventually([&] { return metric(server, "vllm:num_requests_running") == 0; }));
  EXPECT_EQ(metric(server, "vllm:num_requests_waiting"), 0);
  EXPECT_TRUE(eventually([&] { return num_open_files(server) == num_files; }))
      << num_open_files(server) << " open files, " << num_files << " before the test";
  server.signal(SIGTERM);
  EXPECT_EQ(server.wait(), 0);
}

// A device that fails while the file "broken" exists.
class FailingDevice : public testing::Test {
 protected:
  FailingDevice() {
    std::ofstream(folder_ / "rules.yaml")
        << "plugins: [" << GRAFT_TEST_PLUGINS << "/breaks.so]\nrules:\n"
        << "- match: {name: \"^model[.]norm$\"}\n  replace: {class: breaks.norm, kwargs: {while: "
        << folder_ / "broken"
        << "}}\n";
    server_.emplace(std::vector<std::string>{"--device", "cpu", "--rules", folder_ / "rules.yaml"});
  }

  void set_broken(bool is_broken) const {
    const std::filesystem::path file = folder_ / "broken";
    if (is_broken) {
      std::ofstream(file) << "yes";
    } else {
      std::filesystem::remove(file);
    }
  }
  Reply chat() const {
    return post(*server_, kChat,
                {{"messages", {{{"role", "user"}, {"content", "Hello"}}}}, {"max_tokens", 5}});
  }

  TempDir folder_;
  std::optional<ServerProcess> server_;
};

TEST_F(FailingDevice, ErrorsAreReportedAndServingContinues) {
  const std::string message = "the device is broken for a test";
  ASSERT_TRUE(eventually([&] { return get(*server_, "/ready").status == 200; }));
  const Json want = chat().json();
  for (int round = 0; round < 2; ++round) {
    set_broken(true);
    const Reply broken = chat();
    EXPECT_EQ(broken.status, 500) << broken.body;
    EXPECT_EQ(broken.json()["error"]["message"], message);
    EXPECT_EQ(broken.json()["error"]["type"], "server_error");
    const Reply embedding = post(*server_, "/v1/embeddings", {{"input", "Hello"}});
    EXPECT_EQ(embedding.status, 500) << embedding.body;
    EXPECT_EQ(embedding.json()["error"]["message"], message);
    set_broken(false);
    const Reply repaired = chat();
    EXPECT_EQ(repaired.status, 200) << repaired.body;
    EXPECT_EQ(repaired.json()["choices"], want["choices"]);
  }
  EXPECT_EQ(metric(*server_, "vllm:num_requests_running"), 0);
}

// A running stream ends with the error as its last event.
TEST_F(FailingDevice, RunningStreamsEndWithTheError) {
  ASSERT_TRUE(eventually([&] { return get(*server_, "/ready").status == 200; }));
  Client client(server_->port());
  client.send(chat_text({{"stream", true}, {"max_tokens", 1500}}));
  const std::string begin = client.read_until(R"("content":")");
  set_broken(true);
  const std::string rest = client.read_until("broken for a test");
  EXPECT_TRUE(rest.ends_with("broken for a test")) << begin << rest;
  set_broken(false);
  EXPECT_EQ(chat().status, 200);
}

}  // namespace
}  // namespace graft::tests
