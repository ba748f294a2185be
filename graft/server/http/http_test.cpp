// HTTP without sockets; end-to-end tests are in tests/server/server_test.cpp.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
#include <string>
#include <thread>

#include <gtest/gtest.h>
#include <sys/resource.h>

#include "graft/base/text/str.h"
#include "graft/server/http/authority.h"
#include "graft/server/http/framing.h"
#include "graft/server/http/head.h"
#include "graft/server/http/live_exchange.h"
#include "graft/server/http/message.h"
#include "graft/server/http/request_check.h"
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

TEST(HttpMessage, SplitsHeaderLists) {
  const Request request = {.headers = {{"a", "1, 2\t,,"}, {"b", "x"}, {"a", " 3"}}};
  EXPECT_EQ(request.items("a"), (std::vector<std::string>{"1", "2", "3"}));
  EXPECT_TRUE(request.items("c").empty());
}

TEST(HttpAuthority, ParsesHostsAndAddresses) {
  EXPECT_EQ(host_of("Example.COM:80"), "example.com");
  EXPECT_EQ(host_of("a."), "a");
  EXPECT_EQ(host_of("[::1]:80"), "::1");
  for (const char* wrong :
       {"", ":80", "a:b", "a:123456", "[::1", "[x]", "[::1]x", "::1", "a/b", "a@b", "a b"})
    EXPECT_FALSE(host_of(wrong)) << wrong;
  EXPECT_EQ(parse_ip("1.2.3.4"), parse_ip("::ffff:1.2.3.4"));
  EXPECT_FALSE(parse_ip("localhost"));
}

TEST(HttpHead, RejectsAmbiguousRequests) {
  const auto status = [](std::vector<Header> headers, const std::string& path = "/x") {
    headers.push_back({"host", "localhost"});
    const auto error = check_head({.method = "POST", .path = path, .headers = headers}, true);
    return error ? error->status : 0;
  };
  EXPECT_EQ(status({}), 0);
  EXPECT_EQ(status({{"transfer-encoding", "Chunked"}}), 0);
  EXPECT_EQ(status({{"transfer-encoding", "chunked, gzip"}}), 501);
  EXPECT_EQ(status({{"transfer-encoding", "xchunked"}}), 501);
  EXPECT_EQ(status({{"transfer-encoding", "chunked"}, {"transfer-encoding", "chunked"}}), 400);
  EXPECT_EQ(status({{"transfer-encoding", ""}}), 400);
  EXPECT_EQ(status({{"transfer-encoding", "chunked"}, {"content-length", "1"}}), 400);
  EXPECT_EQ(status({{"content-length", "1"}, {"content-length", "1"}}), 400);
  EXPECT_EQ(status({{"host", "a"}}), 400);
  EXPECT_EQ(status({}, "x"), 400);
  EXPECT_EQ(check_head({.path = "/"}, true)->status, 400);
  EXPECT_FALSE(check_head({.path = "/"}, false)) << "HTTP/1.0 needs no Host";
}

TEST(Framing, ProbesAreAPrefixOfTheResponse) {
  const Response response = {.body = "{}"};
  const std::string want = Framing{}.response_head(response);
  Framing framing;
  const std::string probe = framing.probe_text();
  EXPECT_FALSE(probe.empty());
  EXPECT_EQ(framing.probe_text(), "");
  EXPECT_EQ(probe + framing.response_head(response), want);

  Framing stream;
  std::string text = stream.probe_text();
  text += stream.stream_text({.head = StreamHead{.content_type = "text/plain"}});
  EXPECT_TRUE(text.starts_with("HTTP/1.1 200 OK\r\n")) << text;
  EXPECT_EQ(stream.probe_text() + stream.stream_text({.bytes = "abc"}), "03\r\nabc\r\n");
}

struct Live {
  explicit Live(std::size_t max_bytes = 100)
      : exchange(
            {.method = "GET", .path = "/x"}, [this] { ++num_wakes; }, max_bytes) {}

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

TEST(LiveExchange, WritersWaitForSlowClients) {
  Live live(10);
  int num_disconnects = 0;
  int num_writable = 0;
  const auto count = [&] { ++num_writable; };
  live.exchange.start_stream({});
  live.exchange.on_disconnect([&] { ++num_disconnects; });
  live.exchange.write("0123456789");
  EXPECT_FALSE(live.exchange.when_writable(count)) << "it may write at once";
  live.exchange.write("!");
  EXPECT_TRUE(live.exchange.when_writable(count));
  EXPECT_EQ(num_writable, 0);
  EXPECT_EQ(live.exchange.take_output().bytes, "0123456789!") << "nothing is dropped";
  EXPECT_EQ(num_writable, 1);
  live.exchange.take_output();
  EXPECT_EQ(num_writable, 1);

  live.exchange.write("0123456789!");
  EXPECT_TRUE(live.exchange.when_writable(count));
  live.exchange.set_disconnected();
  EXPECT_EQ(num_disconnects, 1);
  EXPECT_EQ(num_writable, 2) << "the writer must not wait for a client that has left";
  EXPECT_FALSE(live.exchange.when_writable(count));
  EXPECT_TRUE(live.exchange.take_output().empty());
  EXPECT_EQ(live.exchange.record(0).status, kClientClosedRequest);
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

// A worker that waits until it is released, so that tasks queue up.
class BlockedWorker {
 public:
  BlockedWorker() {
    pool_.post([this] { release_.get_future().wait(); });
  }
  WorkerPool& pool() { return pool_; }
  void release() { release_.set_value(); }

 private:
  std::promise<void> release_;
  WorkerPool pool_{1};
};

TEST(WorkerPool, ClientsTakeTurns) {
  BlockedWorker worker;
  std::string order;
  std::promise<void> done;
  for (const char* task : {"a1", "a2", "a3"})
    worker.pool().post([&, task] { order += str(task, " "); }, 1);
  worker.pool().post([&] { order += "b1 "; }, 2);
  worker.pool().post([&] { order += "c1 "; }, 3);
  worker.pool().post([&] { order += "b2 "; }, 2);
  worker.pool().post([&] { order += "a4 "; }, 1);
  worker.release();
  worker.pool().post([&] { done.set_value(); }, 1);
  done.get_future().wait();
  EXPECT_EQ(order, "a1 b1 c1 a2 b2 a3 a4 ");
}

TEST(WorkerPool, BackgroundThreadsHaveALowerPriority) {
  WorkerPool workers(1, WorkerPriority::Background);
  std::promise<int> nice;
  workers.post([&] { nice.set_value(::getpriority(PRIO_PROCESS, 0)); });
  EXPECT_EQ(nice.get_future().get(), std::min(19, ::getpriority(PRIO_PROCESS, 0) + 10));
}

TEST(WorkerPool, StopsWhileABackgroundThreadRests) {
  std::atomic<int> count = 0;
  WorkerPool workers(1, WorkerPriority::Background);
  workers.post([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    ++count;
  });
  workers.post([&] { ++count; });
  while (count == 0) {}
  workers.stop();  // drops the second task, or waits for it when the rest is over
  EXPECT_GE(count, 1);
}

}  // namespace
}  // namespace graft::server::http
