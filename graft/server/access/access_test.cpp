#include "graft/server/access/access.h"

#include <gtest/gtest.h>

#include "graft/base/error.h"
#include "graft/server/access/access_log.h"
#include "graft/server/time_text.h"

namespace graft::server {
namespace {

http::Request with_header(const std::string& name, const std::string& value) {
  return {.method = "POST", .path = "/v1/completions", .headers = {{name, value}}};
}

TEST(ApiKeys, AreAcceptedInEitherHeader) {
  ApiKeys keys;
  EXPECT_TRUE(keys.empty());
  keys.add_lines("# team one\nsecret-one\n\n  secret-two \r\n", "keys");
  keys.add_list("three,,four ");
  const auto known = [&](const std::string& name, const std::string& value) {
    return keys.salt_of(with_header(name, value)).has_value();
  };
  EXPECT_TRUE(known("authorization", "Bearer secret-one"));
  EXPECT_TRUE(known("authorization", "bearer  secret-two"));
  EXPECT_TRUE(known("x-api-key", "three"));
  EXPECT_TRUE(known("x-api-key", "four"));
  EXPECT_FALSE(known("x-api-key", "five"));
  EXPECT_FALSE(known("x-api-key", ""));
  EXPECT_FALSE(known("x-api-key", "# team one"));
  EXPECT_FALSE(known("authorization", "Basic secret-one"));
  EXPECT_FALSE(known("authorization", "secret-one"));
}

TEST(ApiKeys, AcceptSha256Digests) {
  ApiKeys keys;
  // printf abc | sha256sum
  keys.add_lines("sha256:BA7816BF8F01CFEA414140DE5DAE2223B00361A396177A9CB410FF61F20015AD", "keys");
  EXPECT_TRUE(keys.salt_of(with_header("x-api-key", "abc")));
  EXPECT_FALSE(keys.salt_of(with_header("x-api-key", "abd")));
  EXPECT_THROW(keys.add_lines("sha256:12", "keys"), Error);
  EXPECT_THROW(keys.add_lines("sha256:" + std::string(64, 'x'), "keys"), Error);
}

TEST(ApiKeys, HaveDistinctSalts) {
  ApiKeys keys;
  keys.add_list("one,two");
  const auto one = keys.salt_of(with_header("x-api-key", "one"));
  const auto two = keys.salt_of(with_header("x-api-key", "two"));
  ASSERT_TRUE(one && two);
  EXPECT_NE(*one, *two);
  EXPECT_EQ(one, keys.salt_of(with_header("authorization", "Bearer one")));
}

int status(const Access& access, const http::Request& request) {
  const auto response = access.gate(request);
  return response ? response->status : 0;
}

TEST(Access, RequiresAKeyWhenKeysAreConfigured) {
  AccessConfig config;
  EXPECT_EQ(status(Access(config), {.method = "POST", .path = "/v1/completions"}), 0);
  config.keys.add_list("k");
  const Access access(config);
  EXPECT_EQ(status(access, {.method = "POST", .path = "/v1/completions"}), 401);
  EXPECT_EQ(status(access, {.method = "GET", .path = "/metrics"}), 401);
  EXPECT_EQ(status(access, {.method = "GET", .path = "/health"}), 0);
  EXPECT_EQ(status(access, with_header("x-api-key", "k")), 0);
  EXPECT_NE(access.cache_salt(with_header("x-api-key", "k")), 0U);
  config.separate_caches = false;
  EXPECT_EQ(Access(config).cache_salt(with_header("x-api-key", "k")), 0U);
}

TEST(Access, CombinesClientSaltsWithKeySalts) {
  AccessConfig config;
  const http::Request one = with_header("x-api-key", "one");
  const http::Request two = with_header("x-api-key", "two");
  EXPECT_EQ(Access(config).cache_salt(one), 0U);
  EXPECT_NE(Access(config).cache_salt(one, "a"), Access(config).cache_salt(one, "b"));
  config.keys.add_list("one,two");
  EXPECT_NE(Access(config).cache_salt(one, "a"), Access(config).cache_salt(two, "a"));
}

TEST(Access, RejectsForeignOrigins) {
  const Access closed(AccessConfig{});
  http::Request request = with_header("origin", "https://evil.example");
  EXPECT_EQ(status(closed, request), 403);
  EXPECT_TRUE(closed.headers(request).empty());
  request.method = "GET";
  EXPECT_EQ(status(closed, request), 0) << "without CORS headers the browser hides the response";
  http::Request own = with_header("origin", "http://localhost:8000");
  own.headers.push_back({"host", "localhost:8000"});
  EXPECT_EQ(status(closed, own), 0);
}

TEST(Access, AcceptsConfiguredOrigins) {
  const Access access(AccessConfig{.origins = {"https://chat.example"}});
  http::Request request = with_header("origin", "https://chat.example");
  EXPECT_EQ(status(access, request), 0);
  EXPECT_EQ(access.headers(request).at(0).value, "https://chat.example");
  request.method = "OPTIONS";
  request.headers.push_back({"access-control-request-headers", "x-stainless-os"});
  const auto preflight = access.gate(request);
  ASSERT_TRUE(preflight);
  EXPECT_EQ(preflight->status, 204);
  EXPECT_EQ(preflight->headers.at(1).value, "x-stainless-os");
  EXPECT_EQ(status(Access(AccessConfig{.origins = {"*"}}), with_header("origin", "null")), 0);
}

TEST(AccessLog, WritesOneJsonLine) {
  const http::Request request = {
      .method = "POST", .path = "/v1/\"x\"", .body = "secret", .remote = "::1", .id = "r1"};
  const std::string line = log_line({.request = &request,
                                     .status = 200,
                                     .bytes = 10,
                                     .seconds = 0.0015,
                                     .log_fields = {{"model", "m"}}},
                                    1.5);
  EXPECT_EQ(line,
            R"({"time":"1970-01-01T00:00:01.500000Z","id":"r1","remote":"::1","method":"POST",)"
            R"("path":"/v1/\"x\"","status":200,"bytes":10,"ms":1.5,"model":"m"})");
  EXPECT_THROW(AccessLog("/nowhere/at/all"), Error);
}

}  // namespace
}  // namespace graft::server
