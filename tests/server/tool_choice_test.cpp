// Forced and strict tool calls over HTTP, in every API: the arguments match at any temperature.

#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "graft/base/text/json.h"

#include "tests/program.h"
#include "tests/server/server_process.h"

namespace graft::tests {
namespace {

const Json kTripSchema = {{"type", "object"},
                          {"properties",
                           {{"city", {{"type", "string"}, {"maxLength", 6}}},
                            {"days", {{"type", "integer"}, {"minimum", 1}, {"maximum", 30}}},
                            {"unit", {{"enum", {"cm", "m"}}}}}},
                          {"required", {"city", "days", "unit"}},
                          {"additionalProperties", false}};
const Json kNoSchema = {{"type", "object"}, {"additionalProperties", false}};

Json chat_tool(const std::string& name, const Json& schema) {
  return {{"type", "function"}, {"function", {{"name", name}, {"parameters", schema}}}};
}

Json chat_body(int seed, const Json& more) {
  Json body = {{"model", "sprout"},
               {"messages", {{{"role", "user"}, {"content", "Plan a trip."}}}},
               {"tools", {chat_tool("trip", kTripSchema), chat_tool("stop", kNoSchema)}},
               {"tool_choice", {{"type", "function"}, {"function", {{"name", "trip"}}}}},
               {"parallel_tool_calls", false},
               {"temperature", 1},
               {"seed", seed},
               {"max_tokens", 150}};
  body.update(more);
  return body;
}

void expect_trip(const Json& trip) {
  EXPECT_EQ(trip.size(), 3U) << trip;
  EXPECT_TRUE(trip.at("city").is_string()) << trip;
  EXPECT_GE(trip.at("days").get<int>(), 1) << trip;
  EXPECT_LE(trip.at("days").get<int>(), 30) << trip;
  EXPECT_TRUE(trip.at("unit") == "cm" || trip.at("unit") == "m") << trip;
}

class ServerToolChoice : public testing::Test {
 protected:
  static void SetUpTestSuite() { server_ = std::make_unique<ServerProcess>(); }
  static void TearDownTestSuite() { server_.reset(); }

  static Json ok(const char* path, const Json& body) {
    const Reply reply = post(*server_, path, body);
    EXPECT_EQ(reply.status, 200) << reply.body;
    return reply.json();
  }
  static Json chat(int seed, const Json& more = Json::object()) {
    return ok("/v1/chat/completions", chat_body(seed, more))["choices"][0];
  }
  static Json error(const char* path, const Json& body) {
    const Reply reply = post(*server_, path, body);
    EXPECT_EQ(reply.status, 400) << reply.body;
    return reply.json()["error"];
  }

  static std::unique_ptr<ServerProcess> server_;
};
std::unique_ptr<ServerProcess> ServerToolChoice::server_;

TEST_F(ServerToolChoice, ChatCompletions) {
  for (int seed = 0; seed < 5; ++seed) {
    const Json choice = chat(seed);
    EXPECT_EQ(choice["finish_reason"], "tool_calls") << choice;
    EXPECT_TRUE(choice["message"]["content"].is_null()) << choice;
    ASSERT_EQ(choice["message"]["tool_calls"].size(), 1U) << choice;
    const Json function = choice["message"]["tool_calls"][0]["function"];
    EXPECT_EQ(function["name"], "trip");
    expect_trip(parse_json(function["arguments"].get<std::string>(), "arguments"));
  }
  // Any of the tools, which may be called again.
  for (int seed = 0; seed < 3; ++seed) {
    const Json choice = chat(seed, {{"tool_choice", "required"}, {"parallel_tool_calls", true}});
    ASSERT_FALSE(choice["message"]["tool_calls"].empty()) << choice;
    if (choice["finish_reason"] == "length") continue;
    for (const Json& call : choice["message"]["tool_calls"]) {
      const auto text = call["function"]["arguments"].get<std::string>();
      if (call["function"]["name"] == "trip") {
        expect_trip(parse_json(text, "arguments"));
      } else {
        EXPECT_EQ(parse_json(text, "arguments"), Json::object());
      }
    }
  }
  const Json allowed =
      chat(1, {{"tool_choice",
                {{"type", "allowed_tools"},
                 {"allowed_tools",
                  {{"mode", "required"},
                   {"tools", {{{"type", "function"}, {"function", {{"name", "stop"}}}}}}}}}}});
  EXPECT_EQ(allowed["message"]["tool_calls"][0]["function"]["name"], "stop") << allowed;
}

TEST_F(ServerToolChoice, ChatStreamsInPieces) {
  Json body = chat_body(3, {{"stream", true}});
  const Reply reply = post(*server_, "/v1/chat/completions", body);
  ASSERT_EQ(reply.status, 200) << reply.body;
  std::string arguments;
  std::string name;
  std::string reason;
  int num_pieces = 0;
  for (std::size_t at = 0; (at = reply.body.find("data: {", at)) != std::string::npos;) {
    at += 6;
    const Json choice =
        parse_json(reply.body.substr(at, reply.body.find('\n', at) - at), "event")["choices"][0];
    EXPECT_TRUE(choice["delta"].value("content", "").empty()) << choice;
    if (!choice["finish_reason"].is_null()) reason = choice["finish_reason"];
    if (!choice["delta"].contains("tool_calls")) continue;
    const Json function = choice["delta"]["tool_calls"][0]["function"];
    name += function.value("name", "");
    arguments += function.value("arguments", "");
    ++num_pieces;
  }
  EXPECT_EQ(name, "trip");
  EXPECT_EQ(reason, "tool_calls");
  EXPECT_GT(num_pieces, 2);
  expect_trip(parse_json(arguments, "arguments"));
}

TEST_F(ServerToolChoice, StrictToolsUnderAuto) {
  Json tools = Json::array({chat_tool("trip", kTripSchema)});
  tools[0]["function"]["strict"] = true;
  for (int seed = 0; seed < 3; ++seed) {
    // The last message begins a call, so that the model writes one.
    const Json choice = chat(seed, {{"tools", tools},
                                    {"tool_choice", "auto"},
                                    {"messages",
                                     {{{"role", "user"}, {"content", "Plan a trip."}},
                                      {{"role", "assistant"}, {"content", "I call it."}}}}});
    for (const Json& call : choice["message"].value("tool_calls", Json::array())) {
      if (choice["finish_reason"] == "length") continue;
      expect_trip(parse_json(call["function"]["arguments"].get<std::string>(), "arguments"));
    }
  }
  tools[0]["function"]["parameters"]["properties"]["city"]["frobnicate"] = 1;
  const Json refused =
      error("/v1/chat/completions", chat_body(1, {{"tools", tools}, {"tool_choice", "auto"}}));
  EXPECT_EQ(refused["param"], "tools");
  EXPECT_NE(refused["message"].get<std::string>().find("tool trip: #/properties/city/frobnicate"),
            std::string::npos)
      << refused;
  // Where no grammar needs it, the schema is not checked.
  tools[0]["function"]["strict"] = false;
  chat(1, {{"tools", tools}, {"tool_choice", "auto"}, {"max_tokens", 1}});
}

TEST_F(ServerToolChoice, Responses) {
  for (int seed = 0; seed < 3; ++seed) {
    const Json response =
        ok("/v1/responses",
           {{"model", "sprout"},
            {"input", "Plan a trip."},
            {"tools", {{{"type", "function"}, {"name", "trip"}, {"parameters", kTripSchema}}}},
            {"tool_choice", {{"type", "function"}, {"name", "trip"}}},
            {"parallel_tool_calls", false},
            {"temperature", 1},
            {"seed", seed},
            {"max_output_tokens", 150}});
    ASSERT_EQ(response["output"].size(), 1U) << response;
    EXPECT_EQ(response["output"][0]["type"], "function_call") << response;
    expect_trip(parse_json(response["output"][0]["arguments"].get<std::string>(), "arguments"));
  }
}

TEST_F(ServerToolChoice, Messages) {
  for (const Json& choice : {Json{{"type", "tool"}, {"name", "trip"}}, Json{{"type", "any"}}}) {
    Json one = choice;
    one["disable_parallel_tool_use"] = true;
    const Json message =
        ok("/v1/messages", {{"model", "sprout"},
                            {"messages", {{{"role", "user"}, {"content", "Plan a trip."}}}},
                            {"tools", {{{"name", "trip"}, {"input_schema", kTripSchema}}}},
                            {"tool_choice", one},
                            {"temperature", 1},
                            {"max_tokens", 150}});
    EXPECT_EQ(message["stop_reason"], "tool_use") << message;
    ASSERT_EQ(message["content"].size(), 1U) << message;
    EXPECT_EQ(message["content"][0]["type"], "tool_use") << message;
    expect_trip(message["content"][0]["input"]);
  }
}

TEST_F(ServerToolChoice, RefusesWithTheField) {
  const char* path = "/v1/chat/completions";
  EXPECT_EQ(
      error(path, chat_body(1, {{"tool_choice",
                                 {{"type", "function"}, {"function", {{"name", "x"}}}}}}))["param"],
      "tool_choice");
  EXPECT_EQ(error(path, chat_body(1, {{"tools", Json::array()}}))["param"], "tool_choice");
  EXPECT_EQ(error(path, chat_body(1, {{"guided_regex", "a"}}))["param"], "tool_choice");
  // A forced call has no content that the format could apply to.
  EXPECT_EQ(chat(1, {{"response_format", {{"type", "json_object"}}}})["finish_reason"],
            "tool_calls");
  const Json bad = Json::array({chat_tool("trip", {{"type", "object"}, {"frobnicate", 1}})});
  EXPECT_NE(error(path, chat_body(1, {{"tools", bad}}))["message"].get<std::string>().find(
                "tool trip: #/frobnicate"),
            std::string::npos);
}

}  // namespace
}  // namespace graft::tests
