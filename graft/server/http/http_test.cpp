// What of HTTP needs no sockets; the rest is in tests/server_test.cpp.

#include <atomic>
#include <string>

#include <gtest/gtest.h>

#include "graft/server/http/head.h"
#include "graft/server/http/live_exchange.h"
#include "graft/server/http/message.h"
#include "graft/server/http/workers.h"

namespace graft::server::http {
namespace {

TEST(HttpHead, SaysWhatFollows) {
  EXPECT_EQ(head_text({.content_type = "text/plain", .length = 5}),
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\n");
  EXPECT_EQ(head_text({.status = 204, .keep_alive = false, .headers = {{"x-request-id", "1"}}}),
            "HTTP/1.1 204 No Content\r\nConnection: close\r\nx-request-id: 1\r\n\r\n");
  EXPECT_NE(head_text({.chunked = true}).find("Transfer-Encoding: chunked\r\n"), std::string::npos);
}

TEST(HttpHead, WritesChunks) {
  EXPECT_EQ(chunk_text("data: 1\n\n"), "9\r\ndata: 1\n\n\r\n");
  EXPECT_EQ(chunk_text(std::string(26, 'x')).substr(0, 4), "1a\r\n");
}

TEST(HttpMessage, DecodesPaths) {
  EXPECT_EQ(percent_decoded("/v1/models/a%2Fb%20c"), "/v1/models/a/b c");
  EXPECT_EQ(percent_decoded("100%"), "100%");
  EXPECT_EQ(percent_decoded("%4"), "%4");
  EXPECT_EQ(percent_decoded("%zz%41"), "%zzA");
}

TEST(HttpMessage, TakesGoodIdsAndMakesNewOnes) {
  EXPECT_EQ(request_id("abc-1"), "abc-1");
  for (const std::string& bad : {std::string(), std::string("a b"), std::string("a\r\nb: c"),
                                 std::string(129, 'x'), std::string("\xc3\xa9")})
    EXPECT_TRUE(request_id(bad).starts_with("req-")) << bad;
  EXPECT_NE(request_id(""), request_id(""));
}

TEST(HttpMessage, FindsHeadersByLowerCase) {
  const Request request = {.headers = {{"a", "1"}, {"b", "2"}, {"a", "3"}}};
  EXPECT_EQ(request.header("a"), "1");
  EXPECT_EQ(request.header("c"), "");
}

struct Live {
  explicit Live(std::size_t max_bytes = 100)
      : exchange(
            {.method = "GET", .path = "/x"},
            [](const Exchange::Task& task) { task(); },
            [this] { ++num_wakes; },
            max_bytes) {}

  int num_wakes = 0;
  LiveExchange exchange;
};

TEST(LiveExchange, HandsOverInOrder) {
  Live live;
  live.exchange.start_stream({.content_type = "text/event-stream"});
  live.exchange.write("a");
  live.exchange.write("b");
  LiveExchange::Output first = live.exchange.take();
  ASSERT_TRUE(first.head);
  EXPECT_EQ(first.bytes, "ab");
  EXPECT_FALSE(first.is_end);
  EXPECT_TRUE(live.exchange.take().empty());
  live.exchange.write("c");
  live.exchange.end();
  live.exchange.write("after the end");
  const LiveExchange::Output last = live.exchange.take();
  EXPECT_EQ(last.bytes, "c");
  EXPECT_TRUE(last.is_end);
  EXPECT_GE(live.num_wakes, 5);
  EXPECT_EQ(live.exchange.record(3).status, 200);
}

TEST(LiveExchange, ASlowReaderLosesItsAnswer) {
  Live live(10);
  int num_gone = 0;
  live.exchange.start_stream({});
  live.exchange.on_gone([&] { ++num_gone; });
  live.exchange.write("0123456789");
  EXPECT_FALSE(live.exchange.is_gone());
  live.exchange.write("!");
  EXPECT_TRUE(live.exchange.is_gone());
  live.exchange.write("more");
  live.exchange.set_gone();
  EXPECT_EQ(num_gone, 1);
  EXPECT_TRUE(live.exchange.take().empty());
  const Record record = live.exchange.record(0);
  EXPECT_EQ(record.status, kClientGone);
  EXPECT_EQ(record.notes["error"], "the client reads too slowly");
}

TEST(LiveExchange, SaysThatTheClientIsGone) {
  Live early;
  early.exchange.set_gone();
  bool is_told = false;
  early.exchange.on_gone([&] { is_told = true; });
  EXPECT_TRUE(is_told);

  Live ended;
  bool is_told_late = false;
  ended.exchange.on_gone([&] { is_told_late = true; });
  ended.exchange.respond({.body = "x"});
  ended.exchange.set_gone();
  EXPECT_FALSE(is_told_late);
}

TEST(Workers, RunTasksAndDropTheRest) {
  std::atomic<int> count = 0;
  {
    Workers workers(3);
    for (int i = 0; i < 100; ++i)
      workers.post([&] { ++count; });
    while (count < 100) {}
    workers.stop();
    workers.post([&] { ++count; });
  }
  EXPECT_EQ(count, 100);
}

}  // namespace
}  // namespace graft::server::http
