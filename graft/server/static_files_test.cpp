#include "graft/server/static_files.h"

#include <algorithm>
#include <regex>
#include <set>

#include <gtest/gtest.h>

#include "graft/testing/exchange.h"

namespace graft::server {
namespace {

std::string header(const http::Response& response, std::string_view name) {
  const auto found = std::ranges::find(response.headers, name, &http::Header::name);
  return found == response.headers.end() ? "" : found->value;
}

http::Response get(const std::string& path, const std::string& accept) {
  Router router;
  add_static_routes(router);
  const auto exchange = std::make_shared<TestExchange>(
      http::Request{.method = "GET", .path = path, .headers = {{"accept", accept}}});
  router.handle(exchange);
  return exchange->response.value();
}

TEST(StaticFiles, RootServesHtmlToBrowsersAndTextToApiClients) {
  const http::Response page = get("/", "text/html,application/xhtml+xml,*/*;q=0.8");
  EXPECT_EQ(page.content_type, "text/html; charset=utf-8");
  EXPECT_TRUE(page.body.starts_with("<!doctype html>"));
  EXPECT_NE(get("/", "*/*").body.find("Ollama is running"), std::string::npos);
  EXPECT_EQ(get("/", "").content_type, "text/plain; charset=utf-8");
  EXPECT_EQ(get("/status", "*/*").content_type, "text/html; charset=utf-8");
}

TEST(StaticFiles, PagesAreRevalidatedAndAssetsImmutable) {
  for (const StaticFile& file : static_files()) {
    const http::Response response = static_response(file);
    EXPECT_EQ(response.body, file.bytes);
    EXPECT_EQ(header(response, "Cache-Control"), file.path.starts_with("/assets/")
                                                     ? "public, max-age=31536000, immutable"
                                                     : "no-cache")
        << file.path;
    const std::string policy = header(response, "Content-Security-Policy");
    EXPECT_NE(policy.find("default-src 'none'"), std::string::npos);
    EXPECT_EQ(policy.find("unsafe"), std::string::npos);
  }
}

// No external resources: the pages work offline and leak nothing to other hosts.
TEST(StaticFiles, PagesReferenceOnlyEmbeddedFiles) {
  std::set<std::string_view> paths;
  std::size_t num_bytes = 0;
  for (const StaticFile& file : static_files()) {
    paths.insert(file.path);
    num_bytes += file.bytes.size();
  }
  EXPECT_LT(num_bytes, 250'000U);
  static const std::regex reference(R"re((?:src|href)="([^"]*)")re");
  for (const std::string_view name : {"/", "/status"}) {
    ASSERT_TRUE(paths.contains(name));
    const std::string page(std::ranges::find(static_files(), name, &StaticFile::path)->bytes);
    for (std::sregex_iterator it(page.begin(), page.end(), reference), end; it != end; ++it)
      EXPECT_TRUE(paths.contains((*it)[1].str())) << name << " references " << (*it)[1];
  }
}

}  // namespace
}  // namespace graft::server
