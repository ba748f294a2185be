// graft serve among clients that send nonsense, vanish or dawdle, beside one that only asks: that
// one must not notice, and afterwards nothing may be left of the others. And with a device that
// breaks: who asks is told, and may ask again.

#include <chrono>
#include <csignal>
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

#include "graft/base/system/temporary_folder.h"
#include "graft/base/text/str.h"
#include "graft/testing/shared_data.h"

#include "tests/mutation.h"
#include "tests/server_process.h"
#include "tests/steady_client.h"

namespace graft::tests {
namespace {

using Seconds = std::chrono::duration<double>;
using Clients = std::vector<std::unique_ptr<Client>>;

constexpr const char* kChat = "/v1/chat/completions";

// Requests that take longer are given up by their client; the server must then end them within
// the limit.
constexpr std::chrono::milliseconds kPatience(kUnderSanitizers ? 500 : 100);
constexpr Seconds kLimit(30);

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

std::string text_of(int number) {
  return mutated_request(static_cast<std::uint64_t>(number));
}

// What the mutated requests were answered.
class Tally {
 public:
  void add(int number, const Reply& reply, Seconds time) {
    const std::lock_guard lock(mutex_);
    ++statuses_[reply.status];
    // The client's own mistakes; 0: it was not worth an answer, or nobody waited for one.
    static const std::set<int> kGood = {0,   100, 200, 204, 400, 401, 403,
                                        404, 405, 408, 413, 429, 431};
    if (!kGood.contains(reply.status)) complain(number, str(reply.status, ": ", reply.body));
    if (time > kLimit) complain(number, str("took ", time.count(), " s"));
    if (is_whole(reply) && reply.json().is_discarded()) complain(number, "no JSON: " + reply.body);
  }

  // The statuses, for who reads the log.
  std::string text() const {
    std::string out;
    for (const auto& [status, count] : statuses_)
      out += str(out.empty() ? "" : ", ", status, ": ", count);
    return out;
  }
  int count(int status) const { return statuses_.contains(status) ? statuses_.at(status) : 0; }
  const std::vector<std::string>& problems() const { return problems_; }

 private:
  static bool is_whole(const Reply& reply) {
    const auto type = reply.headers.find("content-type");
    const auto length = reply.headers.find("content-length");
    return type != reply.headers.end() && type->second == "application/json" &&
           length != reply.headers.end() && std::to_string(reply.body.size()) == length->second;
  }
  void complain(int number, const std::string& what) {
    if (problems_.size() < 20)
      problems_.push_back(str("request ", number, ": ", text_of(number), "\n", what));
  }

  std::mutex mutex_;
  std::map<int, int> statuses_;
  std::vector<std::string> problems_;
};

// Every third on a connection of its own, the others as long as it is kept.
void send_mutated(const ServerProcess& server, int first, int end, int step, Tally& tally) {
  std::unique_ptr<Client> client;
  for (int number = first; number < end; number += step) {
    const auto start = std::chrono::steady_clock::now();
    if (!client || number % 3 == 0) client = std::make_unique<Client>(server.port());
    client->send(text_of(number));
    client->set_patience(kPatience);
    const Reply reply = client->read_reply();
    tally.add(number, reply, std::chrono::steady_clock::now() - start);
    const bool is_kept = reply.status != 0 && !reply.headers.contains("connection") &&
                         reply.headers.contains("content-length");
    if (!is_kept) client.reset();
  }
}

void mutated_requests(const ServerProcess& server) {
  constexpr int kNumRequests = kUnderSanitizers ? 5'000 : 10'000;
  constexpr int kNumThreads = 24;
  Tally tally;
  std::vector<std::thread> threads;
  for (int i = 0; i < kNumThreads; ++i)
    threads.emplace_back([&, i] { send_mutated(server, i, kNumRequests, kNumThreads, tally); });
  for (std::thread& thread : threads)
    thread.join();
  for (const std::string& problem : tally.problems())
    ADD_FAILURE() << problem;
  // Some were still good, and most were not: else this proves nothing.
  EXPECT_GT(tally.count(200), kNumRequests / 20) << tally.text();
  EXPECT_GT(tally.count(400), kNumRequests / 5) << tally.text();
  ::testing::Test::RecordProperty("statuses", tally.text());
}

// In the middle of a head, of a body, of an answer and of a stream; every other without a word.
void vanishing_clients(const ServerProcess& server) {
  const std::string question = chat_text();
  const std::size_t head = question.find("\r\n\r\n");
  for (std::size_t i = 0; i < 200; ++i) {
    Client client(server.port());
    switch (i % 4) {
      case 0:
        client.send(question.substr(0, 1 + i % head));
        break;
      case 1:
        client.send(question.substr(0, head + 4 + i % 40));
        break;
      case 2:
        client.send(question);
        break;
      default:
        client.send(chat_text({{"stream", true}, {"n", 1 + i % 3}, {"temperature", 1}}));
        for (std::size_t event = 0; event < 4 + i % 5; ++event)
          client.read_until("\n\n");
    }
    if (i % 8 < 4) client.reset();
  }
}

// They say that nothing more comes, at every moment of an answer, and wait for the server to say
// the same.
void leaving_clients(const ServerProcess& server) {
  for (int i = 0; i < 2'000; ++i) {
    Client client(server.port());
    client.send(request_text("GET", "/health"));
    ::usleep(static_cast<useconds_t>(i % 200));
    client.end_sending();
    client.read_reply();
    ASSERT_TRUE(client.has_input(10'000)) << "connection " << i << " is still open";
  }
}

// Opened and silent; a head and no body; a body of any length, announced and not sent.
void half_open_connections(const ServerProcess& server) {
  const Clients silent = connect(server, 200);
  const Clients waiting = connect(server, 50);
  for (const auto& client : waiting)
    client->send(str("POST ", kChat, " HTTP/1.1\r\nContent-Length: ", 32U << 20U, "\r\n\r\n"));
  const Clients chunked = connect(server, 50);
  for (const auto& client : chunked)
    client->send(str("POST ", kChat, " HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"));
  EXPECT_EQ(get(server, "/health").status, 200);
  for (const Clients* clients : {&silent, &waiting, &chunked}) {
    for (const auto& client : *clients)
      EXPECT_EQ(client->read_until("\n"), "") << "the server has waited long enough";
  }
}

// A byte now and then, of heads and of bodies.
void dawdling_clients(const ServerProcess& server) {
  const Clients clients = connect(server, 60);
  for (std::size_t i = 0; i < clients.size(); i += 2)
    clients[i]->send("POST /api/chat HTTP/1.1\r\nContent-Length: 1000\r\n\r\n{");
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

// Within the limits of a body, and yet more than anybody needs.
void hostile_values(const ServerProcess& server) {
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
  };
  for (const auto& [path, body] : requests) {
    const auto start = std::chrono::steady_clock::now();
    const Reply reply = ask(server, "POST", path, body);
    const Seconds time = std::chrono::steady_clock::now() - start;
    EXPECT_TRUE(reply.status == 200 || reply.status / 100 == 4)
        << reply.status << " to " << path << body.substr(0, 100);
    EXPECT_LT(time, kLimit) << path << body.substr(0, 100);
    if (reply.status != 200) {
      EXPECT_LT(reply.body.size(), body.size() + 10'000) << path << body.substr(0, 100);
    }
  }
}

TEST(ServerFaults, OfOneClientAreNobodyElses) {
  // Short times, so that dawdling ends soon; no end to the queue, so that nobody is turned away.
  ServerProcess server({"--header-timeout", "2", "--body-timeout", "2", "--max-queue", "100000"});
  ASSERT_TRUE(eventually([&] { return get(server, "/ready").status == 200; }));
  ::usleep(300'000);  // the server's side of the last connection closes a moment later
  const std::size_t num_files = num_open_files(server);
  SteadyClient steady(server.port());
  const std::pair<const char*, void (*)(const ServerProcess&)> parts[] = {
      {"vanishing clients", vanishing_clients},
      {"leaving clients", leaving_clients},
      {"half-open connections", half_open_connections},
      {"dawdling clients", dawdling_clients},
      {"hostile values", hostile_values},
      {"mutated requests", mutated_requests},
  };
  for (const auto& [name, run] : parts) {
    SCOPED_TRACE(name);
    const int num_before = steady.num_answers();
    run(server);
    EXPECT_TRUE(eventually([&] { return steady.num_answers() > num_before; }));
  }
  for (const std::string& problem : steady.stop())
    ADD_FAILURE() << "the well-behaved client: " << problem;
  EXPECT_TRUE(eventually([&] { return metric(server, "vllm:num_requests_running") == 0; }));
  EXPECT_EQ(metric(server, "vllm:num_requests_waiting"), 0);
  EXPECT_TRUE(eventually([&] { return num_open_files(server) == num_files; }))
      << num_open_files(server) << " files are open, before it were " << num_files;
  server.signal(SIGTERM);
  EXPECT_EQ(server.wait(), 0);
}

// A device that fails while a file is there, and works again when it is gone.
class BreakingServer : public testing::Test {
 protected:
  BreakingServer() {
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

  TemporaryFolder folder_;
  std::optional<ServerProcess> server_;
};

TEST_F(BreakingServer, SaysWhatBrokeAndGoesOn) {
  const std::string message = "the device is broken for a test";
  ASSERT_TRUE(eventually([&] { return get(*server_, "/ready").status == 200; }));
  const Json want = chat().json();
  for (int round = 0; round < 2; ++round) {
    set_broken(true);
    const Reply broken = chat();
    EXPECT_EQ(broken.status, 500) << broken.body;
    EXPECT_EQ(broken.json()["error"]["message"], message);
    EXPECT_EQ(broken.json()["error"]["type"], "server_error");
    const Reply vector = post(*server_, "/v1/embeddings", {{"input", "Hello"}});
    EXPECT_EQ(vector.status, 500) << vector.body;
    EXPECT_EQ(vector.json()["error"]["message"], message);
    set_broken(false);
    const Reply whole = chat();
    EXPECT_EQ(whole.status, 200) << whole.body;
    EXPECT_EQ(whole.json()["choices"], want["choices"]);
  }
  EXPECT_EQ(metric(*server_, "vllm:num_requests_running"), 0);
}

// A stream that has begun ends with the error, and the connection with it.
TEST_F(BreakingServer, EndsStreamsWithTheError) {
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
