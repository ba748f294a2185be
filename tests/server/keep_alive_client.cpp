#include "tests/server/keep_alive_client.h"

#include <memory>

#include "graft/base/text/str.h"

#include "tests/server/server_process.h"

namespace graft::tests {
namespace {

// Sprout answers this correctly in ten tokens.
constexpr const char* kQuestion = "What is 12 + 30?";
constexpr const char* kAnswer = "12 + 30 = 42";

std::string streamed_text(const std::string& stream) {
  std::string text;
  bool is_done = false;
  for (const Json& event : events(stream)) {
    is_done = event == "[DONE]";
    if (event.is_object() && !event["choices"].empty())
      text += event["choices"][0]["delta"].value("content", "");
  }
  return is_done ? text : "cut off: " + text;
}

std::string message_text(const Reply& reply) {
  const Json json = reply.json();
  const Json::json_pointer content("/choices/0/message/content");
  return json.contains(content) && json[content].is_string() ? json[content].get<std::string>()
                                                             : "";
}

}  // namespace

KeepAliveClient::KeepAliveClient(std::uint16_t port) : port_(port), thread_([this] { run(); }) {}

KeepAliveClient::~KeepAliveClient() {
  stop();
}

std::vector<std::string> KeepAliveClient::stop() {
  is_stopping_ = true;
  if (thread_.joinable()) thread_.join();
  return problems_;
}

void KeepAliveClient::run() {
  constexpr int kRequestsPerConnection = 4;
  constexpr std::size_t kMaxProblems = 10;  // gives up: the server is probably down
  std::unique_ptr<Client> client;
  for (int i = 0; !is_stopping_ && problems_.size() < kMaxProblems; ++i) {
    if (i % kRequestsPerConnection == 0) client = std::make_unique<Client>(port_);
    ask(*client, i % 2 == 1);
  }
}

void KeepAliveClient::ask(Client& client, bool is_stream) {
  client.post("/v1/chat/completions", {{"messages", {{{"role", "user"}, {"content", kQuestion}}}},
                                       {"temperature", 0},
                                       {"stream", is_stream}});
  const Reply reply = client.read_reply();
  const std::string text = is_stream ? streamed_text(reply.body) : message_text(reply);
  if (reply.status == 200 && text == kAnswer) {
    ++num_responses_;
  } else {
    problems_.push_back(str("status ", reply.status, ": ", reply.body));
  }
}

}  // namespace graft::tests
