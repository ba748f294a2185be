#include "graft/server/http/connection.h"

#include <algorithm>
#include <chrono>
#include <optional>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/ssl/ssl_stream.hpp>
#include <malloc.h>
#include <netinet/tcp.h>
#include <poll.h>

#include "graft/server/http/framing.h"
#include "graft/server/http/parse.h"
#include "graft/server/http/request_check.h"

namespace graft::server::http {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
using ErrorCode = boost::system::error_code;
using Tcp = asio::ip::tcp;
using Clock = std::chrono::steady_clock;

// Bytes a client may pipeline while its current request is being served.
constexpr std::size_t kReadAhead = 64U << 10U;
constexpr std::size_t kReadBytes = 8U << 10U;
constexpr int kSendBytes = 128 << 10;
// Bytes of one write, each with its own timeout: a large response may take longer.
constexpr std::size_t kWriteBytes = 64U << 10U;
// Body size from which on the memory of a handled request is returned to the system at once.
constexpr std::size_t kTrimBytes = 1U << 20U;
// Unsent bytes of a stream before its writer waits.
constexpr std::size_t kMaxUnsentBytes = 256U << 10U;
constexpr int kKeepAliveIdleSeconds = 60;  // Linux's default is two hours
using KeepAliveIdle = asio::detail::socket_option::integer<IPPROTO_TCP, TCP_KEEPIDLE>;

auto seconds(double count) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(count));
}

auto awaiting(ErrorCode& error) {
  return asio::redirect_error(asio::use_awaitable, error);
}

// Stream: beast::tcp_stream, or TLS over it.
template <class Stream>
class Connection final : public OpenConnection,
                         public std::enable_shared_from_this<Connection<Stream>> {
 public:
  Connection(Stream stream, Hub& hub)
      : stream_(std::move(stream)),
        hub_(hub),
        buffer_(hub.limits.max_header_bytes + kReadAhead),
        signal_(hub.io) {
    ErrorCode error;
    const auto remote = socket().remote_endpoint(error);
    if (!error) remote_ = remote.address().to_string();
    hub_.connections.insert(this);
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  ~Connection() override {
    hub_.connections.erase(this);
    if (!hub_.on_closed) {  // the server is being destroyed; the models no longer exist
      if (exchange_) exchange_->drop_callbacks();
      return;
    }
    if (exchange_) exchange_->set_disconnected();
    hub_.on_closed();
  }

  asio::awaitable<void> run() {
    const auto self = this->shared_from_this();
    if constexpr (kIsTls) {
      ErrorCode error;
      lowest().expires_after(seconds(hub_.limits.header_seconds));
      co_await stream_.async_handshake(asio::ssl::stream_base::server, awaiting(error));
      if (error) co_return;
    }
    bool keep_open = true;
    while (keep_open) {
      keep_open = co_await read_head();
      if (keep_open) keep_open = co_await serve_one();
      // Asio reports the end of the input once: a later read would wait forever. A client may have
      // sent more requests before it.
      const bool has_input = !is_half_closed_ || buffer_.size() > 0;
      keep_open = keep_open && has_input && !hub_.is_draining;
    }
    co_await close();
  }

  bool is_idle() const override { return is_idle_; }
  void close_if_idle() override {
    if (is_idle_) lowest().close();
  }

 private:
  static constexpr bool kIsTls = !std::is_same_v<Stream, beast::tcp_stream>;

  beast::tcp_stream& lowest() { return beast::get_lowest_layer(stream_); }
  Tcp::socket& socket() { return lowest().socket(); }

  // Reads the headers of the next request. False when there is none.
  asio::awaitable<bool> read_head() {
    ErrorCode error;
    if (buffer_.size() == 0) {
      is_idle_ = true;
      lowest().expires_after(
          seconds(num_requests_ == 0 ? hub_.limits.header_seconds : hub_.limits.idle_seconds));
      const std::size_t count =
          co_await stream_.async_read_some(buffer_.prepare(kReadBytes), awaiting(error));
      is_idle_ = false;
      if (error) co_return false;
      buffer_.commit(count);
    }
    ++num_requests_;
    parser_.emplace();
    parser_->header_limit(static_cast<std::uint32_t>(hub_.limits.max_header_bytes));
    parser_->body_limit(hub_.limits.max_body_bytes);
    lowest().expires_after(seconds(hub_.limits.header_seconds));
    co_await beast::http::async_read_header(stream_, buffer_, *parser_, awaiting(error));
    if (error) co_await reject(error);
    co_return !error;
  }

  // Serves the request whose headers were read. False when the connection must be closed.
  asio::awaitable<bool> serve_one() {
    Request request = to_request(*parser_, remote_);
    hub_.hooks.on_head(request);
    framing_ = {.is_http11 = parser_->get().version() >= 11,
                .is_head = request.method == "HEAD",
                .keep_alive = parser_->keep_alive(),
                .headers = hub_.hooks.headers(request)};
    framing_.headers.push_back({.name = "x-request-id", .value = request.id});
    num_bytes_ = 0;
    if (const auto error = check_head(request, framing_.is_http11)) {
      co_await reject(request, error->status, error->message);
      co_return false;
    }
    if (std::optional<Response> early = hub_.hooks.gate(request, framing_.headers)) {
      const bool has_body = !parser_->is_done();
      framing_.keep_alive = framing_.keep_alive && !has_body;
      const int status = early->status;
      const bool is_written = co_await write_response(*std::move(early));
      hub_.hooks.log({.request = &request, .status = status, .bytes = num_bytes_});
      if (has_body) co_await linger();
      co_return (is_written && framing_.keep_alive);
    }
    const bool has_body = co_await read_body(request);
    parser_.reset();
    if (!has_body) {
      hub_.body_bytes -= std::exchange(body_bytes_, 0);
      co_return false;
    }
    co_return co_await respond(std::move(request));
  }

  // Body bytes are charged on receipt, not by Content-Length: a client that only announces a large
  // body must not exhaust the shared limit.
  asio::awaitable<bool> read_body(Request& request) {
    ErrorCode error;
    if (!parser_->is_done() && request.header("expect") == "100-continue") {
      const bool is_written = co_await write("HTTP/1.1 100 Continue\r\n\r\n");
      if (!is_written) co_return false;
    }
    lowest().expires_after(seconds(hub_.limits.body_seconds));
    while (!parser_->is_done()) {
      co_await beast::http::async_read_some(stream_, buffer_, *parser_, awaiting(error));
      if (error) {
        co_await reject(error);
        co_return false;
      }
      const std::size_t count = parser_->get().body().size();
      hub_.body_bytes += count - std::exchange(body_bytes_, count);
      if (hub_.body_bytes <= hub_.limits.max_total_body_bytes) continue;
      co_await reject(request, 503, "too many request bytes are being received at once");
      co_return false;
    }
    request.body = std::move(parser_->get().body());
    co_return true;
  }

  // Runs the handler on a worker and writes its response. False when the connection must be closed.
  asio::awaitable<bool> respond(Request request) {
    is_probed_ = false;
    const std::weak_ptr<Connection> weak = this->weak_from_this();
    asio::io_context& io = hub_.io;
    exchange_ = std::make_shared<LiveExchange>(
        std::move(request),
        [&io, weak] {
          asio::post(io, [weak] {
            if (const auto self = weak.lock()) self->wake();
          });
        },
        std::min(hub_.limits.max_buffered_bytes, kMaxUnsentBytes));
    lowest().expires_never();
    is_watching_ = true;
    wants_watch_ = true;
    asio::co_spawn(io, watch(), asio::detached);
    // The handler parses the body before it returns; then its bytes no longer count.
    const std::size_t count = std::exchange(body_bytes_, 0);
    WorkerPool& workers = count > hub_.large_body_bytes ? hub_.large_body_workers : hub_.workers;
    const std::uint64_t client = hub_.hooks.client_of(exchange_->request());
    workers.post(
        [hub = &hub_, exchange = exchange_, count] {
          if (!exchange->is_disconnected()) hub->hooks.handler(exchange);
          exchange->take_body();  // of a handler that did not
          // malloc keeps the memory of a parsed body in the arena of this thread.
          if (count >= kTrimBytes) ::malloc_trim(0);
          asio::post(hub->io, [hub, count] { hub->body_bytes -= count; });
        },
        client);

    const bool is_written = co_await write_output();
    if (!is_written) exchange_->set_disconnected();
    wants_watch_ = false;  // a read that completes now must not start another
    while (is_watching_) {
      lowest().cancel();
      co_await wait_for_signal(Clock::time_point::max());
    }
    hub_.hooks.log(exchange_->record(num_bytes_));
    exchange_.reset();
    co_return (is_written && framing_.keep_alive && !is_disconnected_);
  }

  // Reads ahead while a response is being produced: the only way to detect a disconnect. The end of
  // the input is not one: the client may have closed only its sending side, and then reads the
  // response. write_output() probes for the difference, and a reset ends a later read. With TLS,
  // the end of the input is a disconnect.
  asio::awaitable<void> watch() {
    const auto self = this->shared_from_this();
    ErrorCode error;
    while (wants_watch_ && !is_disconnected_ && buffer_.size() < kReadAhead) {
      // A write that began before this read has set the time of both.
      lowest().expires_never();
      const std::size_t count =
          co_await stream_.async_read_some(buffer_.prepare(kReadBytes), awaiting(error));
      buffer_.commit(count);
      if (error == asio::error::operation_aborted) break;
      if (error == asio::error::eof && !kIsTls && !is_reset()) {
        is_half_closed_ = true;
        signal_.cancel();
      } else if (error) {
        is_disconnected_ = true;
      }
    }
    is_watching_ = false;
    if (is_disconnected_ && exchange_) exchange_->set_disconnected();
    signal_.cancel();
  }

  // After the end of the input, Linux reports a reset only here: reads return the end again.
  bool is_reset() {
    pollfd state = {.fd = socket().native_handle(), .events = 0, .revents = 0};
    return ::poll(&state, 1, 0) == 1 && (state.revents & (POLLERR | POLLHUP)) != 0;
  }

  // The exchange has output, or is disconnected.
  void wake() {
    if (exchange_ && exchange_->is_disconnected()) lowest().close();
    signal_.cancel();
  }

  // Writes the handler's output until its end. False when the client disconnected before.
  asio::awaitable<bool> write_output() {
    for (;;) {
      if (exchange_->is_disconnected()) co_return false;
      LiveExchange::Output output = exchange_->take_output();
      if (output.response) {
        const bool is_written = co_await write_response(*std::move(output.response));
        co_return is_written;
      }
      if (output.empty() && is_half_closed_ && !std::exchange(is_probed_, true)) {
        const std::string probe = framing_.probe_text();
        const bool is_written = co_await write(probe);
        if (!is_written) co_return false;
        continue;
      }
      if (output.empty()) {
        const bool is_timeout = co_await wait_for_signal(next_keep_alive());
        if (!is_timeout) continue;
        output.bytes = framing_.keep_alive_text;
      }
      const bool is_end = output.is_end;
      const std::string text = framing_.stream_text(std::move(output));
      const bool is_written = co_await write(text);
      if (!is_written || is_end) co_return is_written;
    }
  }

  Clock::time_point next_keep_alive() const {
    if (framing_.keep_alive_text.empty()) return Clock::time_point::max();
    return Clock::now() + seconds(hub_.limits.keep_alive_seconds);
  }

  asio::awaitable<bool> write_response(Response response) {
    framing_.keep_alive = framing_.keep_alive && !hub_.is_draining;
    std::string text = framing_.response_head(response);
    if (!framing_.has_body(response)) response.body.clear();
    const bool is_small = response.body.size() <= kWriteBytes;
    if (is_small) text += std::exchange(response.body, {});
    bool is_written = co_await write(text);
    if (is_written && !is_small) is_written = co_await write(response.body);
    co_return is_written;
  }

  // `text` must live until the write has ended.
  asio::awaitable<bool> write(std::string_view text) {
    ErrorCode error;
    while (!text.empty() && !error) {
      lowest().expires_after(seconds(hub_.limits.write_seconds));
      const std::string_view piece = text.substr(0, kWriteBytes);
      num_bytes_ += co_await asio::async_write(stream_, asio::buffer(piece), awaiting(error));
      text.remove_prefix(piece.size());
    }
    lowest().expires_never();  // the time is that of writes, not of a read that begins now
    if (error == beast::error::timeout && exchange_)
      exchange_->log_field("error", "the client reads too slowly: write timeout");
    co_return !error;
  }

  // The request is malformed or exceeds a limit.
  asio::awaitable<void> reject(ErrorCode error) {
    const int status = status_of(error);
    if (status == 0) co_return;
    Request unknown = {.remote = remote_, .id = request_id({})};
    if (error == beast::http::error::body_limit) {  // the head was read: the path is known
      const Request head = to_request(*parser_, remote_);
      unknown.method = head.method;
      unknown.path = head.path;
    }
    framing_ = {.headers = {{.name = "x-request-id", .value = unknown.id}}};
    co_await reject(unknown, status, error.message());
  }

  asio::awaitable<void> reject(const Request& request, int status, std::string message) {
    framing_.keep_alive = false;
    const bool is_written =
        co_await write_response(hub_.hooks.error_response(request, status, message));
    hub_.hooks.log({.request = &request, .status = status, .bytes = num_bytes_});
    if (is_written) co_await linger();
  }

  // Closing with unread input makes the kernel send a reset, which discards the response on the
  // client's side: reads and drops input for up to 2 s first.
  asio::awaitable<void> linger() {
    constexpr int kMaxReads = 1024;
    ErrorCode error;
    if constexpr (!kIsTls) socket().shutdown(Tcp::socket::shutdown_send, error);
    lowest().expires_after(std::chrono::seconds(2));
    buffer_.clear();
    for (int i = 0; i < kMaxReads && !error; ++i)
      co_await stream_.async_read_some(buffer_.prepare(kReadBytes), awaiting(error));
  }

  asio::awaitable<void> close() {
    ErrorCode error;
    if constexpr (kIsTls) {
      lowest().expires_after(std::chrono::seconds(2));
      co_await stream_.async_shutdown(awaiting(error));
    } else {
      socket().shutdown(Tcp::socket::shutdown_both, error);
    }
    lowest().close();
    co_return;
  }

  // True on timeout. Everything here runs on the I/O thread, so no signal is lost between the check
  // of the exchange and the wait.
  asio::awaitable<bool> wait_for_signal(Clock::time_point until) {
    ErrorCode error;
    signal_.expires_at(until);
    co_await signal_.async_wait(awaiting(error));
    co_return error != asio::error::operation_aborted;
  }

  Stream stream_;
  Hub& hub_;
  beast::flat_buffer buffer_;
  asio::steady_timer signal_;  // cancelled to wake a waiting coroutine
  std::string remote_;
  std::optional<Parser> parser_;
  std::shared_ptr<LiveExchange> exchange_;
  Framing framing_;             // of the current response
  std::size_t body_bytes_ = 0;  // of the current request, included in Hub::body_bytes
  std::size_t num_requests_ = 0;
  std::size_t num_bytes_ = 0;  // written for the current response
  bool is_idle_ = false;
  bool is_watching_ = false;
  bool wants_watch_ = false;
  bool is_half_closed_ = false;  // the client sends no more
  bool is_probed_ = false;       // a probe was sent for the current response
  bool is_disconnected_ = false;
};

template <class Stream>
void spawn(Stream stream, Hub& hub) {
  const auto connection = std::make_shared<Connection<Stream>>(std::move(stream), hub);
  asio::co_spawn(
      hub.io, [connection] { return connection->run(); }, asio::detached);
}

}  // namespace

void serve_connection(Tcp::socket socket, asio::ssl::context* tls, Hub& hub) {
  ErrorCode ignored;
  socket.set_option(Tcp::no_delay(true), ignored);
  // Detects clients that vanish without closing the connection while their request waits.
  socket.set_option(asio::socket_base::keep_alive(true), ignored);
  socket.set_option(KeepAliveIdle(kKeepAliveIdleSeconds), ignored);
  // The kernel's default would buffer megabytes for a client that does not read.
  socket.set_option(asio::socket_base::send_buffer_size(kSendBytes), ignored);
  beast::tcp_stream stream(std::move(socket));
  if (tls == nullptr) {
    spawn(std::move(stream), hub);
  } else {
    spawn(beast::ssl_stream<beast::tcp_stream>(std::move(stream), *tls), hub);
  }
}

}  // namespace graft::server::http
