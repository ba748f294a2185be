#include "graft/cli/bench/load_client.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "graft/base/error.h"

namespace graft::cli {
namespace {

TEST(LoadClient, ParsesUrls) {
  const ServerAddress plain = parse_server_url("http://127.0.0.1:8000");
  EXPECT_EQ(plain.host, "127.0.0.1");
  EXPECT_EQ(plain.port, "8000");
  EXPECT_EQ(plain.base, "");
  EXPECT_EQ(parse_server_url("http://box/").port, "80");
  EXPECT_EQ(parse_server_url("http://box:1/v1/").base, "");
  EXPECT_EQ(parse_server_url("http://box:1/models/a").base, "/models/a");
  EXPECT_EQ(parse_server_url("http://[::1]:8000").host, "::1");
  for (const char* wrong : {"", "box:8000", "https://box", "http://", "http://:80", "http://a:b"})
    EXPECT_THROW(parse_server_url(wrong), Error) << wrong;
}

// Network reads may split events anywhere.
TEST(LoadClient, ParsesEventsSplitAnywhere) {
  const std::string stream =
      ": keep-alive\n\n"
      "data: {\"choices\": [{\"text\": \"a\"}]}\r\n\r\n"
      "data: {\"choices\": [{\"text\": \"\"}]}\n\n"
      "data:{\"choices\": [{\"delta\": {\"content\": \"b\"}}]}\n\n"
      "data: {\"choices\": [], \"usage\": {\"prompt_tokens\": 7, \"completion_tokens\": 2}}\n\n"
      "data: [DONE]\n\n";
  for (const std::size_t step : {std::size_t{1}, std::size_t{10}, stream.size()}) {
    StreamResult result;
    std::size_t next = 0;
    for (std::size_t end = 0; end < stream.size();) {
      end = std::min(stream.size(), end + step);
      next = read_events(std::string_view(stream).substr(0, end), next, 1.0, result);
    }
    EXPECT_EQ(result.chunk_seconds.size(), 2U);
    EXPECT_EQ(result.prompt_tokens, 7);
    EXPECT_EQ(result.output_tokens, 2);
    EXPECT_EQ(result.failure, "");
  }
}

TEST(LoadClient, StreamErrorsAreFailures) {
  StreamResult result;
  read_events("data: {\"error\": {\"message\": \"no memory\"}}\n", 0, 1.0, result);
  EXPECT_NE(result.failure.find("no memory"), std::string::npos);
  result = {};
  read_events("data: 12\n", 0, 1.0, result);
  EXPECT_EQ(result.failure, "an event is not a JSON object");
}

}  // namespace
}  // namespace graft::cli
