#include "graft/hub/fetch/allowed_fetch.h"

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>

#include <gtest/gtest.h>

#include "graft/base/error.h"
#include "graft/hub/fetch/allowed_hosts.h"
#include "graft/testing/hub/http_peer.h"

namespace graft::hub {
namespace {

using testing::HttpPeer;
using testing::PeerRequest;
using testing::PeerResponse;

std::string error_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(AllowedHosts, ParsesUrlsAsTheClientDoes) {
  const UrlHost plain = parse_url("HTTPS://Images.Example.com./a?b#c");
  EXPECT_EQ(plain.scheme, "https");
  EXPECT_EQ(plain.host, "images.example.com");
  EXPECT_EQ(plain.port, 443);
  EXPECT_EQ(parse_url("http://[::1]:8080/x").host, "::1");
  EXPECT_EQ(parse_url("http://[::1]:8080/x").port, 8080);
  for (const char* url :
       {"ftp://a.example/x", "file:///etc/passwd", "http://", "gopher://a",
        "http://user@a.example/", "http://a.example@b.example/", "http://a b/", "a.example", ""})
    EXPECT_THROW(parse_url(url), Error) << url;
}

TEST(AllowedHosts, KnowsPrivateAddresses) {
  for (const char* address : {"127.0.0.1",
                              "10.1.2.3",
                              "172.31.0.1",
                              "192.168.1.1",
                              "169.254.169.254",
                              "100.64.0.1",
                              "0.0.0.0",
                              "224.0.0.1",
                              "255.255.255.255",
                              "::",
                              "::1",
                              "fe80::1",
                              "fd00::1",
                              "ff02::1",
                              "::ffff:127.0.0.1",
                              "::ffff:10.0.0.1",
                              "64:ff9b::a00:1",
                              "2002:7f00:1::",
                              "",
                              "name"})
    EXPECT_TRUE(is_private_address(address)) << address;
  for (const char* address : {"8.8.8.8", "172.32.0.1", "100.128.0.1", "2606:4700::1",
                              "::ffff:8.8.8.8", "2002:808:808::1"})
    EXPECT_FALSE(is_private_address(address)) << address;
}

TEST(AllowedHosts, AllowsNamedHostsAndPorts) {
  const AllowedHosts hosts({"images.example.com", "other.example:8443", "[fd00::1]:80", "fd00::2"});
  EXPECT_TRUE(hosts.allows(parse_url("https://images.example.com/x")));
  EXPECT_TRUE(hosts.allows(parse_url("http://IMAGES.example.com/x")));
  EXPECT_FALSE(hosts.allows(parse_url("http://images.example.com:8080/x")));
  EXPECT_FALSE(hosts.allows(parse_url("https://a.images.example.com/x")));
  EXPECT_FALSE(hosts.allows(parse_url("https://images.example.com.evil.example/x")));
  EXPECT_TRUE(hosts.allows(parse_url("https://other.example:8443/x")));
  EXPECT_FALSE(hosts.allows(parse_url("https://other.example/x")));
  EXPECT_TRUE(hosts.allows(parse_url("http://[fd00::1]/x")));
  EXPECT_TRUE(hosts.allows(parse_url("https://[fd00::2]/x")));
  EXPECT_TRUE(hosts.allows_address("8.8.8.8"));
  EXPECT_TRUE(hosts.allows_address("fd00::1"));
  EXPECT_FALSE(hosts.allows_address("127.0.0.1"));
  EXPECT_FALSE(hosts.allows_address("169.254.169.254"));
  EXPECT_TRUE(AllowedHosts({"localhost"}).allows_address("127.0.0.1"));
  EXPECT_FALSE(AllowedHosts({"localhost"}).allows_address("10.0.0.1"));
  for (const char* entry :
       {"", ":80", "a:0", "a:70000", "a:x", "http://a", "*.example", "a/b", "u@a"})
    EXPECT_THROW(AllowedHosts({entry}), Error) << entry;
}

class AllowedFetch : public ::testing::Test {
 protected:
  std::string fetch(const std::string& path, const FetchLimits& limits = {}) const {
    return fetch_allowed(peer.url() + path, hosts, limits, {});
  }

  HttpPeer other{[](const PeerRequest&) { return PeerResponse{.body = "secret"}; }};
  HttpPeer peer{[this](const PeerRequest& request) -> PeerResponse {
    const std::string& path = request.target;
    if (path == "/picture") return {.body = "pixels"};
    if (path == "/moved") return {.status = 302, .headers = {"Location: /picture"}};
    if (path == "/loop") return {.status = 302, .headers = {"Location: /loop"}};
    if (path == "/away")
      return {.status = 302, .headers = {"Location: " + other.url() + "/secret"}};
    if (path == "/token")
      return {.status = 401,
              .headers = {"WWW-Authenticate: Bearer realm=\"" + other.url() + "/token\""}};
    if (path == "/file") return {.status = 302, .headers = {"Location: file:///etc/passwd"}};
    if (path == "/large") return {.body = std::string(200000, 'x')};
    if (path == "/endless") return {.body = std::string(200000, 'x'), .has_length = false};
    if (path == "/slow") return {.body = std::string(std::size_t{4} << 20U, 'x'), .pause_ms = 200};
    return {.status = 404};
  }};
  AllowedHosts hosts{{peer.url().substr(7)}};
};

TEST_F(AllowedFetch, FollowsRedirectsToAllowedHostsOnly) {
  EXPECT_EQ(fetch("/picture"), "pixels");
  EXPECT_EQ(fetch("/moved"), "pixels");
  EXPECT_NE(error_of([&] { fetch("/away"); }).find("to which the server redirects"),
            std::string::npos);
  EXPECT_NE(error_of([&] { fetch("/token"); }).find("401"), std::string::npos);
  EXPECT_TRUE(other.requests().empty());
  EXPECT_NE(error_of([&] { fetch("/file"); }), "");
  EXPECT_NE(error_of([&] { fetch("/loop"); }).find("more than 5 redirects"), std::string::npos);
  EXPECT_NE(error_of([&] { fetch("/missing"); }).find("404"), std::string::npos);
}

TEST_F(AllowedFetch, LimitsBytesAndTime) {
  for (const char* path : {"/large", "/endless"}) {
    EXPECT_NE(error_of([&] { fetch(path, {.max_bytes = 100000}); }).find("over 100000 bytes"),
              std::string::npos)
        << path;
  }
  const auto start = std::chrono::steady_clock::now();
  EXPECT_NE(error_of([&] { fetch("/slow", {.seconds = 0.5}); }), "");
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(8));
}

// Names that end in .localhost have the addresses of this machine: the name is allowed, its address
// is not.
TEST_F(AllowedFetch, ChecksTheAddressOfAName) {
  const std::string port = peer.url().substr(peer.url().rfind(':'));
  const AllowedHosts name({"pictures.localhost" + port});
  const AllowedHosts local({"localhost" + port});
  EXPECT_EQ(fetch_allowed("http://localhost" + port + "/picture", local, {}, {}), "pixels");
  const std::size_t num_before = peer.requests().size();
  const std::string problem = error_of(
      [&] { fetch_allowed("http://pictures.localhost" + port + "/picture", name, {}, {}); });
  EXPECT_NE(problem.find("its address"), std::string::npos) << problem;
  EXPECT_NE(error_of([&] {
              fetch_allowed("http://127.0.0.1" + port + "/picture", local, {}, {});
            }).find("is not allowed"),
            std::string::npos);
  EXPECT_EQ(peer.requests().size(), num_before);
}

}  // namespace
}  // namespace graft::hub
