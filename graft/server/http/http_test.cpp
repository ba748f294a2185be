// HTTP without sockets; end-to-end tests are in tests/server_test.cpp.

#include <atomic>
#include <string>

#include <gtest/gtest.h>

#include "graft/server/http/head.h"
#include "graft/server/http/live_exchange.h"
#include "graft/server/http/message.h"
#include "graft/server/http/worker_pool.h"

namespace graft::server::http {
namespace {

TEST(HttpHead, WritesStatusAndHeaders) {
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

TEST(HttpMessage, DecodesPercentEscapes) {
  EXPECT_EQ(percent_decoded("/v1/models/a%2Fb%20c"), "/v1/models/a/b c");
  EXPECT_EQ(percent_decoded("100%"), "100%");
  EXPECT_EQ(percent_decoded("%4"), "%4");
  EXPECT_EQ(percent_decoded("%zz%41"), "%zzA");
}

TEST(HttpMessage, KeepsValidRequestIdsAndReplacesOthers) {
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

TEST(LiveExchange, DeliversOutputInOrder) {
  Live live;
  live.exchange.start_stream({.content_type = "text/event-stream"});
  live.exchange.write("a");
  live.exchange.write("b");
  LiveExchange::Output first = live.exchange.take_output();
  ASSERT_TRUE(first.head);
  EXPECT_EQ(first.bytes, "ab");
  EXPECT_FALSE(first.is_end);
  EXPECT_TRUE(live.exchange.take_output().empty());
  live.exchange.write("c");
  live.exchange.end();
  live.exchange.write("after the end");
  const LiveExchange::Output last = live.exchange.take_output();
  EXPECT_EQ(last.bytes, "c");
  EXPECT_TRUE(last.is_end);
  EXPECT_GE(live.num_wakes, 5);
  EXPECT_EQ(live.exchange.record(3).status, 200);
}

TEST(LiveExchange, DisconnectsSlowClients) {
  Live live(10);
  int num_disconnects = 0;
  live.exchange.start_stream({});
  live.exchange.on_disconnect([&] { ++num_disconnects; });
  live.exchange.write("0123456789");
  EXPECT_FALSE(live.exchange.is_disconnected());
  live.exchange.write("!");
  EXPECT_TRUE(live.exchange.is_disconnected());
  live.exchange.write("more");
  live.exchange.set_disconnected();
  EXPECT_EQ(num_disconnects, 1);
  EXPECT_TRUE(live.exchange.take_output().empty());
  const LogRecord record = live.exchange.record(0);
  EXPECT_EQ(record.status, kClientClosedRequest);
  EXPECT_EQ(record.log_fields["error"], "the client reads too slowly: output buffer full");
}

TEST(LiveExchange, ReportsDisconnectsUntilTheEnd) {
  Live early;
  early.exchange.set_disconnected();
  bool is_called = false;
  early.exchange.on_disconnect([&] { is_called = true; });
  EXPECT_TRUE(is_called);

  Live ended;
  bool is_called_late = false;
  ended.exchange.on_disconnect([&] { is_called_late = true; });
  ended.exchange.respond({.body = "x"});
  ended.exchange.set_disconnected();
  EXPECT_FALSE(is_called_late);
}

TEST(WorkerPool, RunsTasksAndDropsThoseAfterStop) {
  std::atomic<int> count = 0;
  {
    WorkerPool workers(3);
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
