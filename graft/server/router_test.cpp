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
  router.add_plain("GET", "/a", text("get a"));
  router.add_plain("POST", "/a", text("post a"));
  router.add_plain("GET", "/m/*", text("any m"));
  router.add("POST", "/error", [](const http::ExchangePtr&) { fail("mend it"); });
  router.add("POST", "/api/error", [](const http::ExchangePtr&) { fail("mend it"); });
  router.add("POST", "/bug", [](const http::ExchangePtr&) { throw std::runtime_error("oops"); });
  router.add("POST", "/memory", [](const http::ExchangePtr&) { throw std::bad_alloc(); });
  router.add("POST", "/busy", [](const http::ExchangePtr&) {
    ApiError error(429, "busy", {}, "queue_full");
    error.retry_after_seconds = 3;
    throw error;
  });
  return router;
}

http::Response answer(const std::string& method, const std::string& path) {
  const auto exchange = test_exchange(method, path);
  small_router().handle(exchange);
  return exchange->response.value();
}

TEST(Router, FindsByMethodAndPath) {
  EXPECT_EQ(answer("GET", "/a").body, "get a");
  EXPECT_EQ(answer("HEAD", "/a").body, "get a");
  EXPECT_EQ(answer("POST", "/a").body, "post a");
  EXPECT_EQ(answer("GET", "/m/x/y").body, "any m");
  EXPECT_EQ(answer("GET", "/a/").status, 404);
  EXPECT_EQ(answer("DELETE", "/a").status, 405);
}

TEST(Router, AnswersErrorsAsTheApiSpellsThem) {
  const Json openai = Json::parse(answer("POST", "/error").body);
  EXPECT_EQ(openai["error"]["message"], "mend it");
  EXPECT_EQ(openai["error"]["type"], "invalid_request_error");
  EXPECT_TRUE(openai["error"]["param"].is_null());
  EXPECT_EQ(answer("POST", "/error").status, 400);
  EXPECT_EQ(Json::parse(answer("POST", "/api/error").body), Json({{"error", "mend it"}}));
  EXPECT_EQ(answer("POST", "/memory").status, 503);
  const http::Response bug = answer("POST", "/bug");
  EXPECT_EQ(bug.status, 500);
  EXPECT_EQ(bug.body.find("oops"), std::string::npos) << "what went wrong inside stays inside";
  const http::Response busy = answer("POST", "/busy");
  EXPECT_EQ(busy.status, 429);
  EXPECT_EQ(busy.headers.at(0).name, "Retry-After");
  EXPECT_EQ(busy.headers.at(0).value, "3");
}

TEST(Fields, RefuseWhatIsNoObject) {
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
  EXPECT_EQ(fields.text("t"), "x");
  EXPECT_EQ(fields.texts("t").size(), 1U);
  EXPECT_EQ(fields.texts("l", 2).size(), 2U);
  EXPECT_THROW(fields.texts("l", 1), ApiError);
  EXPECT_EQ(fields.ids("ids").size(), 2U);
  EXPECT_EQ(fields.flag("b"), true);
  EXPECT_FALSE(fields.has("no"));
  EXPECT_FALSE(fields.number("absent", 0, 1));
  EXPECT_THROW(fields.integer("f"), ApiError);
  EXPECT_THROW(fields.integer("big"), ApiError);
  EXPECT_THROW(fields.number("n", 0, 1), ApiError);
  EXPECT_THROW(fields.text("n"), ApiError);
  EXPECT_THROW(fields.flag("n"), ApiError);
  EXPECT_THROW(fields.ids("l"), ApiError);
  EXPECT_THROW(fields.needed_text("no"), ApiError);
  EXPECT_THROW(fields.refuse("t", "no"), ApiError);
  fields.refuse("no", "null is like absent");
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
