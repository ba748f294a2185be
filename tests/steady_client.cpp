#include "tests/steady_client.h"

#include <memory>

#include "graft/base/text/str.h"

#include "tests/server_process.h"

namespace graft::tests {
namespace {

// Sprout knows it, and needs ten tokens to say so.
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

std::string whole_text(const Reply& reply) {
  const Json json = reply.json();
  const Json::json_pointer place("/choices/0/message/content");
  return json.contains(place) && json[place].is_string() ? json[place].get<std::string>() : "";
}

}  // namespace

SteadyClient::SteadyClient(std::uint16_t port) : port_(port), thread_([this] { run(); }) {}

SteadyClient::~SteadyClient() {
  stop();
}

std::vector<std::string> SteadyClient::stop() {
  is_stopping_ = true;
  if (thread_.joinable()) thread_.join();
  return problems_;
}

void SteadyClient::run() {
  constexpr int kPerConnection = 4;
  constexpr std::size_t kMaxProblems = 10;  // then there is no server to speak of
  std::unique_ptr<Client> client;
  for (int i = 0; !is_stopping_ && problems_.size() < kMaxProblems; ++i) {
    if (i % kPerConnection == 0) client = std::make_unique<Client>(port_);
    ask(*client, i % 2 == 1);
  }
}

void SteadyClient::ask(Client& client, bool is_stream) {
  client.post("/v1/chat/completions", {{"messages", {{{"role", "user"}, {"content", kQuestion}}}},
                                       {"temperature", 0},
                                       {"stream", is_stream}});
  const Reply reply = client.read_reply();
  const std::string text = is_stream ? streamed_text(reply.body) : whole_text(reply);
  if (reply.status == 200 && text == kAnswer) {
    ++num_answers_;
  } else {
    problems_.push_back(str("status ", reply.status, ": ", reply.body));
  }
}

}  // namespace graft::tests
