#include "graft/server/router.h"

#include <new>

#include <gtest/gtest.h>

#include "graft/base/error.h"
#include "graft/server/api_error.h"
#include "graft/server/fields.h"
#include "graft/testing/exchange.h"

namespace graft::server {
namespace {

Router small_router() {
  Router router;
  const auto text = [](const std::string& body) {
    return [body](const http::Request&) { return http::Response{.body = body}; };
  };
  router.add_sync("GET", "/a", text("get a"));
  router.add_sync("POST", "/a", text("post a"));
  router.add_sync("GET", "/m/*", text("any m"));
  router.add("POST", "/error", [](const http::ExchangePtr&) { fail("bad input"); });
  router.add("POST", "/api/error", [](const http::ExchangePtr&) { fail("bad input"); });
  router.add("POST", "/v1/messages", [](const http::ExchangePtr&) { fail("bad input"); });
  router.add("POST", "/bug", [](const http::ExchangePtr&) { throw std::runtime_error("oops"); });
  router.add("POST", "/memory", [](const http::ExchangePtr&) { throw std::bad_alloc(); });
  router.add("POST", "/busy", [](const http::ExchangePtr&) {
    ApiError error(429, "busy", {}, "queue_full");
    error.retry_after_seconds = 3;
    throw error;
  });
  return router;
}

http::Response respond(const std::string& method, const std::string& path) {
  const auto exchange = test_exchange(method, path);
  small_router().handle(exchange);
  return exchange->response.value();
}

TEST(Router, NamesTheRouteOfARequest) {
  const auto route = [](const std::string& path) {
    return small_router().route_of({.method = "DELETE", .path = path});
  };
  EXPECT_EQ(route("/a"), "/a");
  EXPECT_EQ(route("/m/x/y"), "/m/*");
  EXPECT_EQ(route("/nowhere"), "other");
  EXPECT_EQ(route(""), "other");
}

TEST(Router, FindsByMethodAndPath) {
  EXPECT_EQ(respond("GET", "/a").body, "get a");
  EXPECT_EQ(respond("HEAD", "/a").body, "get a");
  EXPECT_EQ(respond("POST", "/a").body, "post a");
  EXPECT_EQ(respond("GET", "/m/x/y").body, "any m");
  EXPECT_EQ(respond("GET", "/a/").status, 404);
  const http::Response wrong = respond("DELETE", "/a");
  EXPECT_EQ(wrong.status, 405);
  EXPECT_EQ(wrong.headers.at(0).name, "Allow");
  EXPECT_EQ(wrong.headers.at(0).value, "GET, HEAD, OPTIONS, POST");
}

TEST(Router, AnswersImmediateRoutesWithoutAnExchange) {
  Router router = small_router();
  router.add_immediate("GET", "/now",
                       [](const http::Request&) { return http::Response{.body = "now"}; });
  router.add_immediate("GET", "/bug-now",
                       [](const http::Request&) -> http::Response { throw std::bad_alloc(); });
  EXPECT_EQ(router.respond_now({.method = "GET", .path = "/now"})->body, "now");
  EXPECT_EQ(router.respond_now({.method = "GET", .path = "/bug-now"})->status, 500);
  EXPECT_FALSE(router.respond_now({.method = "POST", .path = "/now"}));
  EXPECT_FALSE(router.respond_now({.method = "GET", .path = "/a"}));
}

TEST(ApiError, CutsPathsToFileNames) {
  EXPECT_EQ(without_folders("/home/u/my models/x.gguf: no such file"), "x.gguf: no such file");
  EXPECT_EQ(without_folders("cannot read '/a/b c/d': see /e/f"), "cannot read 'd': see f");
  EXPECT_EQ(without_folders("12 tokens/s, K/V cache"), "12 tokens/s, K/V cache");
  EXPECT_EQ(without_folders("/"), "");
  EXPECT_EQ(without_folders(""), "");
  EXPECT_NE(error_body({500, "/a/b: broken"}, {}).find("\"b: broken\""), std::string::npos);
  EXPECT_NE(error_body({404, "no such path: /a/b"}, {}).find("/a/b"), std::string::npos);
}

TEST(Router, FormatsErrorsPerApi) {
  const Json openai = Json::parse(respond("POST", "/error").body);
  EXPECT_EQ(openai["error"]["message"], "bad input");
  EXPECT_EQ(openai["error"]["type"], "invalid_request_error");
  EXPECT_TRUE(openai["error"]["param"].is_null());
  EXPECT_EQ(respond("POST", "/error").status, 400);
  EXPECT_EQ(Json::parse(respond("POST", "/api/error").body), Json({{"error", "bad input"}}));
  EXPECT_EQ(respond("POST", "/memory").status, 503);
  const http::Response bug = respond("POST", "/bug");
  EXPECT_EQ(bug.status, 500);
  EXPECT_EQ(bug.body.find("oops"), std::string::npos) << "internal errors are not exposed";
  const http::Response busy = respond("POST", "/busy");
  EXPECT_EQ(busy.status, 429);
  EXPECT_EQ(busy.headers.at(0).name, "Retry-After");
  EXPECT_EQ(busy.headers.at(0).value, "3");
}

TEST(ApiError, HasAnthropicsTypesAndStatuses) {
  EXPECT_EQ(respond("POST", "/v1/messages").body,
            R"({"type":"error","error":{"type":"invalid_request_error","message":"bad input"}})");
  const auto check = [](const ApiError& error, int status, const std::string& type) {
    const http::Response response = error_response(error, "/v1/messages/count_tokens");
    EXPECT_EQ(response.status, status);
    EXPECT_EQ(Json::parse(response.body)["error"]["type"], type);
  };
  check({401, "no key"}, 401, "authentication_error");
  check({403, "no"}, 403, "permission_error");
  check({404, "no such model"}, 404, "not_found_error");
  check({413, "too large"}, 413, "request_too_large");
  check({429, "too many", {}, "requests_per_minute"}, 429, "rate_limit_error");
  check(busy_error("the queue is full", 1), 529, "overloaded_error");
  check({500, "bug"}, 500, "api_error");
  check({503, "shutting down"}, 529, "overloaded_error");
  EXPECT_FALSE(is_anthropic("/v1/messagesx"));
}

TEST(Fields, RejectBodiesThatAreNotJsonObjects) {
  for (const char* body : {"", "[]", "3", "{", "{\"a\":1,\"a\":2}", "{\"a\":\"\xff\"}"})
    EXPECT_THROW(parse_body(body), ApiError) << body;
  EXPECT_THROW(parse_body(std::string(200, '[') + std::string(200, ']')), ApiError);
}

TEST(Fields, ReadTypesAndLimits) {
  const OrderedJson json = parse_body(
      R"({"n":2.0,"f":0.5,"t":"x","l":["a","b"],"no":null,"b":true,"big":1e300,"ids":[1,2],"o":{"x":-1}})");
  const Fields fields(json);
  EXPECT_EQ(fields.integer("n"), 2);
  EXPECT_EQ(fields.number("f", 0, 1), 0.5);
  EXPECT_EQ(fields.string("t"), "x");
  EXPECT_EQ(fields.strings("t").size(), 1U);
  EXPECT_EQ(fields.strings("l", 2).size(), 2U);
  EXPECT_THROW(fields.strings("l", 1), ApiError);
  EXPECT_EQ(fields.token_ids("ids").size(), 2U);
  EXPECT_EQ(fields.boolean("b"), true);
  EXPECT_FALSE(fields.has("no"));
  EXPECT_FALSE(fields.number("absent", 0, 1));
  EXPECT_THROW(fields.integer("f"), ApiError);
  EXPECT_THROW(fields.integer("big"), ApiError);
  EXPECT_THROW(fields.number("n", 0, 1), ApiError);
  EXPECT_THROW(fields.string("n"), ApiError);
  EXPECT_THROW(fields.boolean("n"), ApiError);
  EXPECT_THROW(fields.token_ids("l"), ApiError);
  EXPECT_THROW(fields.required_string("no"), ApiError);
  EXPECT_THROW(fields.reject("t", "no"), ApiError);
  fields.reject("no", "null counts as absent");
  try {
    fields.object("o")->integer("x", 0);
    FAIL();
  } catch (const ApiError& error) {
    EXPECT_EQ(error.param, "o.x");
    EXPECT_EQ(error.status, 400);
  }
}

}  // namespace
}  // namespace graft::server
