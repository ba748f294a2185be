// graft serve end to end over sockets: the APIs of coding agents, Anthropic's Messages and OpenAI's
// Responses, and the continuation of a message.

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/server/server_process.h"

namespace graft::tests {
namespace {

constexpr const char* kMessages = "/v1/messages";
constexpr const char* kResponses = "/v1/responses";
// Sprout answers these reliably.
const Json kSumQuestion = {{"role", "user"}, {"content", "Find the sum of 62 and 1."}};
const Json kPriceQuestion = {{"role", "user"}, {"content", "How much does the item watch cost?"}};
constexpr const char* kSum = "62 + 1 = 63";

Json price_schema() {
  return {{"type", "object"},
          {"properties", {{"item", {{"type", "string"}, {"description", "The item"}}}}},
          {"required", {"item"}}};
}

Json message_body(const Json& more = Json::object()) {
  Json body = {{"max_tokens", 64}, {"messages", {kSumQuestion}}, {"temperature", 0}};
  body.update(more);
  return body;
}

Json response_body(const Json& more = Json::object()) {
  Json body = {{"input", "Find the sum of 62 and 1."}, {"temperature", 0}};
  body.update(more);
  return body;
}

// The data of the events of a stream; each must be named after its type.
std::vector<Json> named_events(const std::string& stream) {
  std::vector<Json> found;
  std::size_t at = 0;
  while (at < stream.size()) {
    const std::size_t end = stream.find("\n\n", at);
    const std::size_t data = stream.find("\ndata: ", at);
    if (end == std::string::npos || data > end) break;
    found.push_back(Json::parse(stream.substr(data + 7, end - data - 7), nullptr, false));
    EXPECT_EQ("event: " + found.back().value("type", ""), stream.substr(at, data - at));
    at = end + 2;
  }
  EXPECT_EQ(at, stream.size()) << stream;
  return found;
}

TEST(Server, ServesAnthropicsMessages) {
  const ServerProcess server;
  const Reply reply =
      post(server, kMessages, message_body(), {{"anthropic-version", "2023-06-01"}});
  ASSERT_EQ(reply.status, 200) << reply.body;
  EXPECT_EQ(reply.headers.at("request-id"), reply.headers.at("x-request-id"));
  const Json json = reply.json();
  EXPECT_EQ(json["content"], Json::parse(R"([{"type":"text","text":"62 + 1 = 63"}])"));
  EXPECT_EQ(json["stop_reason"], "end_turn");
  EXPECT_EQ(json["usage"]["input_tokens"], 22);
  const Json again = post(server, kMessages, message_body()).json();
  EXPECT_EQ(again["usage"]["cache_read_input_tokens"], 16);
  EXPECT_EQ(again["usage"]["input_tokens"], 6);
  EXPECT_EQ(post(server, "/v1/messages/count_tokens", {{"messages", {kSumQuestion}}}).body,
            R"({"input_tokens":22})");

  const Reply stream = post(server, kMessages, message_body({{"stream", true}}));
  EXPECT_EQ(stream.headers.at("content-type"), "text/event-stream; charset=utf-8");
  const std::vector<Json> events = named_events(stream.body);
  ASSERT_GT(events.size(), 6U) << stream.body;
  EXPECT_EQ(events[0]["message"]["usage"]["input_tokens"], 22);
  EXPECT_EQ(events.back()["type"], "message_stop");
  std::string text;
  for (const Json& event : events)
    text += event.value("delta", Json::object()).value("text", "");
  EXPECT_EQ(text, kSum);

  const Json stopped =
      post(server, kMessages, message_body({{"stop_sequences", {"= 6", "never"}}})).json();
  EXPECT_EQ(stopped["stop_reason"], "stop_sequence");
  EXPECT_EQ(stopped["stop_sequence"], "= 6");
}

TEST(Server, MessagesCallTools) {
  const ServerProcess server;
  Json body = message_body({{"messages", {kPriceQuestion}},
                            {"tools",
                             {{{"name", "get_price"},
                               {"description", "Get the price of an item"},
                               {"input_schema", price_schema()}}}}});
  const Json answer = post(server, kMessages, body).json();
  ASSERT_EQ(answer["stop_reason"], "tool_use") << answer;
  const Json call = answer["content"].back();
  EXPECT_EQ(call["name"], "get_price");
  EXPECT_EQ(call["input"], Json({{"item", "watch"}}));
  body["messages"].push_back({{"role", "assistant"}, {"content", answer["content"]}});
  body["messages"].push_back({{"role", "user"},
                              {"content",
                               {{{"type", "tool_result"},
                                 {"tool_use_id", call["id"]},
                                 {"content", R"({"price": 18})"}}}}});
  const Json last = post(server, kMessages, body).json();
  EXPECT_NE(last["content"][0]["text"].get<std::string>().find("18"), std::string::npos) << last;
}

TEST(Server, MessagesHaveAnthropicsErrors) {
  const ServerProcess server({"--max-body-mib", "1"});
  const auto check = [&](const Reply& reply, int status, const std::string& type) {
    EXPECT_EQ(reply.status, status) << reply.body;
    EXPECT_EQ(reply.json()["type"], "error") << reply.body;
    EXPECT_EQ(reply.json()["error"]["type"], type) << reply.body;
  };
  check(post(server, kMessages, message_body({{"model", "none"}})), 404, "not_found_error");
  check(post(server, kMessages, {{"max_tokens", 1}}), 400, "invalid_request_error");
  check(get(server, kMessages), 405, "invalid_request_error");
  check(post(server, "/v1/messages/batches", message_body()), 404, "not_found_error");
  check(post(server, kMessages, {{"x", std::string(2U << 20U, 'x')}}), 413, "request_too_large");
  const Json text = {{"content", std::string(500'000, 'x')}, {"role", "user"}};
  check(post(server, kMessages, message_body({{"messages", {text}}})), 400,
        "invalid_request_error");
}

TEST(Server, ServesOpenAisResponses) {
  const ServerProcess server;
  const Json first = post(server, kResponses, response_body()).json();
  ASSERT_EQ(first["status"], "completed") << first;
  EXPECT_EQ(first["output"][0]["content"][0]["text"], kSum);
  EXPECT_EQ(first["usage"]["input_tokens"], 22);
  const std::string id = first["id"].get<std::string>();
  EXPECT_EQ(get(server, kResponses + ("/" + id)).json(), first);
  const Json items = get(server, kResponses + ("/" + id + "/input_items")).json();
  EXPECT_EQ(items["data"][0]["content"][0]["text"], "Find the sum of 62 and 1.");
  EXPECT_EQ(ask(server, "POST", kResponses + ("/" + id + "/cancel")).status, 400);

  const Json next =
      post(server, kResponses, response_body({{"input", "Hi"}, {"previous_response_id", id}}))
          .json();
  EXPECT_EQ(next["status"], "completed") << next;
  EXPECT_GT(next["usage"]["input_tokens"], 30) << "the conversation goes on";
  EXPECT_EQ(post(server, "/v1/responses/input_tokens", response_body()).body,
            R"({"object":"response.input_tokens","input_tokens":22})");

  EXPECT_EQ(ask(server, "DELETE", kResponses + ("/" + id)).json()["deleted"], true);
  EXPECT_EQ(get(server, kResponses + ("/" + id)).status, 404);
  EXPECT_EQ(post(server, kResponses, response_body({{"previous_response_id", id}})).status, 400);
  const Json unstored = post(server, kResponses, response_body({{"store", false}})).json();
  EXPECT_EQ(get(server, kResponses + ("/" + unstored["id"].get<std::string>())).status, 404);
}

TEST(Server, StreamsResponses) {
  const ServerProcess server;
  const Json tool = {{"type", "function"},
                     {"name", "get_price"},
                     {"description", "Get the price of an item"},
                     {"parameters", price_schema()}};
  const Reply reply =
      post(server, kResponses,
           response_body({{"input", {kPriceQuestion}}, {"tools", {tool}}, {"stream", true}}));
  const std::vector<Json> events = named_events(reply.body);
  ASSERT_GT(events.size(), 5U) << reply.body;
  EXPECT_EQ(events[0]["type"], "response.created");
  for (std::size_t i = 0; i < events.size(); ++i)
    EXPECT_EQ(events[i]["sequence_number"], i);
  const Json& whole = events.back()["response"];
  ASSERT_EQ(events.back()["type"], "response.completed") << events.back();
  const Json call = whole["output"].back();
  EXPECT_EQ(call["type"], "function_call");
  EXPECT_EQ(Json::parse(call["arguments"].get<std::string>()), Json({{"item", "watch"}}));
  const Json answer = post(server, kResponses,
                           response_body({{"previous_response_id", whole["id"]},
                                          {"tools", {tool}},
                                          {"input",
                                           {{{"type", "function_call_output"},
                                             {"call_id", call["call_id"]},
                                             {"output", R"({"price": 18})"}}}}}))
                          .json();
  EXPECT_NE(answer.dump().find("18"), std::string::npos) << answer;
  EXPECT_EQ(answer["output"].back()["type"], "message") << answer;
}

// A long conversation is cut where a client asks for it.
TEST(Server, ResponsesTruncateOldTurns) {
  const ServerProcess server({"--max-model-len", "256"});
  Json input = Json::array();
  for (int i = 0; i < 40; ++i) {
    input.push_back({{"role", "user"}, {"content", "Find the sum of 62 and 1."}});
    input.push_back({{"role", "assistant"}, {"content", kSum}});
  }
  input.push_back(kSumQuestion);
  const Json body = response_body({{"input", input}, {"max_output_tokens", 1}});
  EXPECT_EQ(post(server, kResponses, body).status, 400);
  Json cut = body;
  cut["truncation"] = "auto";
  const Reply reply = post(server, kResponses, cut);
  EXPECT_EQ(reply.status, 200) << reply.body;
  EXPECT_GT(reply.json()["usage"]["input_tokens"], 200) << "as much as fits";
}

TEST(Server, ContinuesMessagesOfTheAssistant) {
  const ServerProcess server;
  const Json messages = {kSumQuestion, {{"role", "assistant"}, {"content", "62 + 1 ="}}};
  const Json chat = post(server, kChat, {{"messages", messages}, {"temperature", 0}}).json();
  EXPECT_EQ(chat["choices"][0]["message"]["content"], " 63") << chat;
  EXPECT_TRUE(chat["system_fingerprint"].get<std::string>().starts_with("fp_graft_"));
  const Json anthropic = post(server, kMessages, message_body({{"messages", messages}})).json();
  EXPECT_EQ(anthropic["content"][0]["text"], " 63") << anthropic;
  const Json turn = post(server, kChat,
                         {{"messages", messages},
                          {"add_generation_prompt", true},
                          {"max_tokens", 8},
                          {"temperature", 0}})
                        .json();
  EXPECT_GT(turn["usage"]["prompt_tokens"], chat["usage"]["prompt_tokens"]);
  EXPECT_EQ(
      post(server, kChat, {{"messages", {kSumQuestion}}, {"continue_final_message", true}}).status,
      400);
}

TEST(Server, ServesOpenAisPathsWithoutTheirPrefix) {
  const ServerProcess server;
  EXPECT_EQ(get(server, "/models").json()["data"][0]["id"], "sprout");
  EXPECT_EQ(get(server, "/models/sprout").json()["object"], "model");
  const Json chat = post(server, "/chat/completions", chat_body({{"max_tokens", 1}})).json();
  EXPECT_EQ(chat["object"], "chat.completion");
  EXPECT_EQ(post(server, "/chat/completions/input_tokens", {{"messages", {kSumQuestion}}}).body,
            R"({"object":"response.input_tokens","input_tokens":22})");
  EXPECT_EQ(post(server, "/responses", response_body({{"max_output_tokens", 1}})).status, 200);
}

}  // namespace
}  // namespace graft::tests
