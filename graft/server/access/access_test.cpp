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
    return keys.find(with_header(name, value)) != nullptr;
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
  EXPECT_NE(keys.find(with_header("x-api-key", "abc")), nullptr);
  EXPECT_EQ(keys.find(with_header("x-api-key", "abd")), nullptr);
  EXPECT_THROW(keys.add_lines("sha256:12", "keys"), Error);
  EXPECT_THROW(keys.add_lines("sha256:" + std::string(64, 'x'), "keys"), Error);
}

TEST(ApiKeys, HaveDistinctSalts) {
  ApiKeys keys;
  keys.add_list("one,two");
  const ApiKey* one = keys.find(with_header("x-api-key", "one"));
  const ApiKey* two = keys.find(with_header("x-api-key", "two"));
  ASSERT_TRUE(one != nullptr && two != nullptr);
  EXPECT_NE(one->id(), two->id());
  EXPECT_EQ(one->id(), salt_of_text("one"));
  EXPECT_EQ(one, keys.find(with_header("authorization", "Bearer one")));
}

TEST(ApiKeys, HaveNamesAndAdminRights) {
  ApiKeys keys;
  keys.add_lines("abc name=team-1 admin\ndef  admin\nghi\tname=b", "keys");
  const ApiKey* abc = keys.find(with_header("x-api-key", "abc"));
  ASSERT_NE(abc, nullptr);
  EXPECT_EQ(abc->name, "team-1");
  EXPECT_TRUE(abc->is_admin);
  EXPECT_EQ(abc->short_digest(), "ba7816bf8f01");
  EXPECT_TRUE(keys.find(with_header("x-api-key", "def"))->is_admin);
  EXPECT_EQ(keys.find(with_header("x-api-key", "ghi"))->name, "b");
  EXPECT_FALSE(keys.find(with_header("x-api-key", "ghi"))->is_admin);
  EXPECT_EQ(keys.find(with_header("x-api-key", "abc name=team-1 admin")), nullptr);
  for (const char* line : {"jkl root", "jkl name=", "jkl name=a/b", "jkl name=b"})
    EXPECT_THROW(keys.add_lines(line, "keys"), Error) << line;
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

TEST(Access, ClientsAreKeysOrAddresses) {
  AccessConfig config;
  http::Request one = with_header("x-api-key", "one");
  http::Request two = with_header("x-api-key", "two");
  one.remote = two.remote = "10.0.0.1";
  EXPECT_EQ(Access(config).client_of(one).id, Access(config).client_of(two).id) << "one address";
  two.remote = "10.0.0.2";
  EXPECT_NE(Access(config).client_of(one).id, Access(config).client_of(two).id);
  config.keys.add_list("one,two");
  two.remote = one.remote;
  EXPECT_NE(Access(config).client_of(one).id, Access(config).client_of(two).id) << "two keys";
  http::Request elsewhere = one;
  elsewhere.remote = "10.0.0.3";
  EXPECT_EQ(Access(config).client_of(one).id, Access(config).client_of(elsewhere).id);
}

TEST(Access, AClientWithIpv6IsItsNetwork) {
  const Access access(AccessConfig{});
  const auto client = [&](const std::string& remote) {
    http::Request request = with_header("x-api-key", "one");
    request.remote = remote;
    return access.client_of(request);
  };
  EXPECT_EQ(client("2001:db8:1:2::1").id, client("2001:db8:1:2:ffff::7").id);
  EXPECT_NE(client("2001:db8:1:2::1").id, client("2001:db8:1:3::1").id);
  EXPECT_NE(client("::ffff:10.0.0.1").id, client("::ffff:10.0.0.2").id);
  EXPECT_TRUE(client("10.0.0.1").key.empty()) << "the server has no keys";
  EXPECT_FALSE(client("127.0.0.1").is_admin);
}

TEST(Access, TellsAWrongKeyFromAMissingOne) {
  AccessConfig config;
  config.keys.add_list("k");
  const Access access(config);
  const auto body = [&](const http::Request& request) { return access.gate(request)->body; };
  EXPECT_NE(body(with_header("x-api-key", "no")).find("the API key is wrong"), std::string::npos);
  EXPECT_NE(body({.method = "GET", .path = "/metrics"}).find("missing API key"), std::string::npos);
}

TEST(Access, SetKeysReplacesTheKeys) {
  AccessConfig config;
  config.keys.add_list("old");
  Access access(config);
  ApiKeys keys;
  keys.add_list("new");
  access.set_keys(keys);
  EXPECT_EQ(status(access, with_header("x-api-key", "old")), 401);
  EXPECT_EQ(status(access, with_header("x-api-key", "new")), 0);
}

TEST(Traceparent, IsKeptWhenItIsWellFormed) {
  const std::string good = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
  EXPECT_EQ(traceparent_of(with_header("traceparent", good)), good);
  for (const std::string& bad :
       {std::string(), good + "-", good.substr(1), "00_" + good.substr(3),
        std::string("00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01")})
    EXPECT_EQ(traceparent_of(with_header("traceparent", bad)), "") << bad;
}

TEST(AllowedHosts, AreLoopbackNamesAddressesAndConfiguredNames) {
  const AllowedHosts hosts("192.168.0.7", {"Graft.LAN", "proxy:8443"});
  for (const char* host : {"", "localhost", "LocalHost:1", "localhost.", "a.b.localhost:8000",
                           "127.0.0.1:8000", "[::1]", "10.1.2.3", "graft.lan:80", "proxy"})
    EXPECT_TRUE(hosts.allows(host)) << host;
  for (const char* host :
       {"evil.example", "notlocalhost", "localhost.evil.example", "127.0.0.1.nip.io",
        "graft.lan.evil.example", "[::1", "a b", "0x7f.1.evil.example", "localhost:x"})
    EXPECT_FALSE(hosts.allows(host)) << host;
  EXPECT_TRUE(AllowedHosts("::", {"*"}).allows("evil.example"));
  EXPECT_TRUE(AllowedHosts("server.lan", {}).allows("server.lan:8000"));
  EXPECT_THROW(AllowedHosts("::", {"a b"}), Error);
}

TEST(PublicUrl, IsAnOriginWithoutTheDefaultPort) {
  EXPECT_EQ(origin_of_url("https://Chat.example/"), "https://chat.example");
  EXPECT_EQ(origin_of_url("https://chat.example:443"), "https://chat.example");
  EXPECT_EQ(origin_of_url("http://chat.example:8080"), "http://chat.example:8080");
  for (const char* url : {"", "chat.example", "ftp://chat.example", "https://", "https://a/b"})
    EXPECT_THROW(origin_of_url(url), Error) << url;
}

TEST(TrustedProxies, SetClientAndHost) {
  const TrustedProxies proxies({"127.0.0.1", "10.0.0.0/8", "fd00::/9"});
  const auto resolved = [&](const std::string& remote, const std::string& forwarded) {
    http::Request request = {.headers = {{"host", "upstream"},
                                         {"x-forwarded-for", forwarded},
                                         {"x-forwarded-host", "forged, chat.example"}},
                             .remote = remote};
    proxies.apply(request);
    return request.remote + " " + std::string(request.header("host"));
  };
  EXPECT_EQ(resolved("127.0.0.1", "203.0.113.9"), "203.0.113.9 chat.example");
  EXPECT_EQ(resolved("::ffff:127.0.0.1", "[2001:db8::1]:77"), "2001:db8::1 chat.example");
  EXPECT_EQ(resolved("10.9.9.9", "1.1.1.1, 203.0.113.9:55, 10.2.3.4"), "203.0.113.9 chat.example")
      << "the last address that is not a trusted proxy";
  EXPECT_EQ(resolved("fd7f::1", "unknown"), "fd7f::1 chat.example");
  EXPECT_EQ(resolved("fd80::1", "203.0.113.9"), "fd80::1 upstream");
  EXPECT_EQ(resolved("192.168.0.1", "203.0.113.9"), "192.168.0.1 upstream");
  for (const char* wrong :
       {"", "nginx", "10.0.0.0/", "10.0.0.0/33", "10.0.0.0/8x", "::/129", "10.0.0.0/-1"})
    EXPECT_THROW(TrustedProxies({wrong}), Error) << wrong;
}

TEST(AllowedOrigins, IncludeLocalPagesAndDesktopApps) {
  const AllowedOrigins origins({"https://chat.example", "chrome-extension://*"});
  for (const char* origin :
       {"http://localhost", "https://localhost:3000", "http://127.0.0.1:8080", "http://[::1]:1",
        "app://obsidian.md", "tauri://localhost", "file://", "vscode-webview://abc",
        "https://chat.example", "chrome-extension://id"})
    EXPECT_TRUE(origins.allows(origin)) << origin;
  for (const char* origin : {"https://evil.example", "http://localhost.evil.example", "null",
                             "https://chat.example.evil", "http://127.0.0.1.evil.example"})
    EXPECT_FALSE(origins.allows(origin)) << origin;
}

TEST(Access, RejectsForeignHosts) {
  const Access access(AccessConfig{.public_url = "https://chat.example"});
  EXPECT_EQ(status(access, with_header("host", "evil.example")), 403);
  EXPECT_EQ(status(access, with_header("host", "localhost:8000")), 0);
  EXPECT_EQ(status(access, with_header("host", "chat.example")), 0);
  http::Request proxied = with_header("host", "127.0.0.1:8000");
  proxied.headers.push_back({"origin", "https://chat.example"});
  EXPECT_EQ(status(access, proxied), 0) << "the proxy replaced the host";
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
}

}  // namespace
}  // namespace graft::server
