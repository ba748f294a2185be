#include "graft/server/http/server.h"

#include <algorithm>
#include <chrono>
#include <csignal>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <unistd.h>

#include "graft/base/error.h"
#include "graft/server/http/connection.h"

namespace graft::server::http {
namespace {

namespace asio = boost::asio;
using ErrorCode = boost::system::error_code;
using Tcp = asio::ip::tcp;

Tcp::endpoint endpoint_of(asio::io_context& io, const Config& config) {
  ErrorCode error;
  const auto address = asio::ip::make_address(config.host, error);
  if (!error) return {address, config.port};
  Tcp::resolver resolver(io);
  const auto found = resolver.resolve(config.host, std::to_string(config.port), error);
  if (error || found.empty()) fail(config.host, ": cannot resolve the address to listen on");
  return found.begin()->endpoint();
}

std::shared_ptr<asio::ssl::context> tls_of(const Config& config) {
  if (config.tls_certificate.empty() != config.tls_key.empty())
    fail("TLS needs both a certificate and its private key");
  if (config.tls_certificate.empty()) return nullptr;
  auto context = std::make_shared<asio::ssl::context>(asio::ssl::context::tls_server);
  context->set_options(asio::ssl::context::default_workarounds | asio::ssl::context::no_sslv2 |
                       asio::ssl::context::no_sslv3 | asio::ssl::context::no_tlsv1 |
                       asio::ssl::context::no_tlsv1_1);
  ErrorCode error;
  context->use_certificate_chain_file(config.tls_certificate.string(), error);
  // OpenSSL's own messages do not add information here.
  if (error) fail(config.tls_certificate.string(), ": cannot read a PEM certificate chain");
  context->use_private_key_file(config.tls_key.string(), asio::ssl::context::pem, error);
  if (error) fail(config.tls_key.string(), ": cannot read the PEM private key of the certificate");
  return context;
}

auto duration(double seconds) {
  return std::chrono::duration_cast<std::chrono::steady_clock::duration>(
      std::chrono::duration<double>(seconds));
}

}  // namespace

struct Server::State {
  explicit State(Config given)
      : config(std::move(given)),
        tls(tls_of(config)),
        acceptor(io),
        slot_freed(io),
        drain_min(io),
        drain_max(io),
        heartbeat(io),
        signals(io),
        workers(config.num_workers),
        large_body_workers(1, WorkerPriority::Background) {
    const Tcp::endpoint endpoint = endpoint_of(io, config);
    ErrorCode error;
    acceptor.open(endpoint.protocol(), error);
    if (!error) acceptor.set_option(Tcp::acceptor::reuse_address(true), error);
    if (!error) acceptor.bind(endpoint, error);
    if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
    if (error) fail(config.host, ":", config.port, ": cannot listen: ", error.message());
    // From here on a signal is queued until run() handles it.
    signals.add(SIGTERM);
    signals.add(SIGINT);
    signals.add(SIGHUP);
  }

  asio::awaitable<void> accept_all() {
    for (;;) {
      ErrorCode error;
      if (hub.connections.size() >= config.limits.max_connections) {
        slot_freed.expires_at(std::chrono::steady_clock::time_point::max());
        co_await slot_freed.async_wait(asio::redirect_error(asio::use_awaitable, error));
        continue;
      }
      Tcp::socket socket(io);
      co_await acceptor.async_accept(socket, asio::redirect_error(asio::use_awaitable, error));
      if (!error) {
        ++num_accepted;
        serve_connection(std::move(socket), tls.get(), hub);
      } else {
        // For example out of file descriptors: retry after other connections have closed.
        slot_freed.expires_after(std::chrono::milliseconds(100));
        co_await slot_freed.async_wait(asio::redirect_error(asio::use_awaitable, error));
      }
    }
  }

  void wait_for_signal() {
    signals.async_wait([this](const ErrorCode& error, int signal) {
      if (error) return;
      if (signal == SIGHUP && !is_terminal_closed()) {
        if (hub.hooks.on_reload) hub.hooks.on_reload();
      } else if (hub.is_draining) {
        if (hub.hooks.on_drain) hub.hooks.on_drain(0);
        io.stop();
        return;
      } else {
        // Load balancers send no traffic to a server at a terminal (Ctrl+C): it need not wait.
        drain(signal == SIGTERM ? config.drain.min_seconds : 0);
      }
      wait_for_signal();
    });
  }

  // SIGHUP also means that the terminal was closed, and then the server ends.
  bool is_terminal_closed() const { return had_terminal && ::isatty(STDIN_FILENO) == 0; }

  void drain(double min_seconds) {
    hub.is_draining = true;
    if (hub.hooks.on_drain) hub.hooks.on_drain(config.drain.max_seconds);
    const auto open = hub.connections;  // a copy: closing removes them from the set
    for (OpenConnection* connection : open)
      connection->close_if_idle();
    drain_max.expires_after(duration(config.drain.max_seconds));
    drain_max.async_wait([this](const ErrorCode&) { io.stop(); });
    drain_min.expires_after(duration(min_seconds));
    drain_min.async_wait([this](const ErrorCode&) {
      can_stop = true;
      stop_when_drained();
    });
  }

  // Idle connections opened while draining do not count: they only probe the port.
  void stop_when_drained() {
    const auto is_idle = [](const OpenConnection* connection) { return connection->is_idle(); };
    if (can_stop && std::ranges::all_of(hub.connections, is_idle)) io.stop();
  }

  void beat() {
    if (hub.hooks.heartbeat_seconds <= 0) return;
    hub.hooks.heartbeat();
    heartbeat.expires_after(duration(hub.hooks.heartbeat_seconds));
    heartbeat.async_wait([this](const ErrorCode& error) {
      if (!error) beat();
    });
  }

  const Config config;
  const bool had_terminal = ::isatty(STDIN_FILENO) == 1;
  // Declared before `io`: connections destroyed with the I/O context still use the hub.
  Hub hub = {.io = io,
             .workers = workers,
             .large_body_workers = large_body_workers,
             .large_body_bytes = config.large_body_bytes,
             .limits = config.limits,
             .hooks = {}};
  asio::io_context io{1};
  std::shared_ptr<asio::ssl::context> tls;
  Tcp::acceptor acceptor;
  asio::steady_timer slot_freed;  // cancelled when a connection closes
  asio::steady_timer drain_min;
  asio::steady_timer drain_max;
  asio::steady_timer heartbeat;
  std::uint64_t num_accepted = 0;
  bool can_stop = false;  // draining, and Drain::min_seconds are over
  asio::signal_set signals;
  WorkerPool workers;
  WorkerPool large_body_workers;
};

Server::Server(const Config& config) : state_(std::make_unique<State>(config)) {}

Server::~Server() {
  state_->hub.on_closed = nullptr;  // connections destroyed with the I/O context must not call it
}

std::uint16_t Server::port() const {
  return state_->acceptor.local_endpoint().port();
}

void Server::post_to_workers(std::function<void()> task) {
  state_->workers.post(std::move(task));
}

ServerStats Server::stats() const {
  return {.num_connections = state_->hub.connections.size(), .num_accepted = state_->num_accepted};
}

void Server::reload_certificate() {
  // Open connections share the old context through OpenSSL's reference count.
  state_->tls = tls_of(state_->config);
}

void Server::run(Hooks hooks) {
  State& state = *state_;
  state.hub.hooks = std::move(hooks);
  state.hub.on_closed = [&state] {
    state.slot_freed.cancel();
    state.stop_when_drained();
  };
  state.wait_for_signal();
  state.beat();
  asio::co_spawn(state.io, state.accept_all(), asio::detached);
  state.io.run();
  ErrorCode ignored;
  state.acceptor.close(ignored);
  state.workers.stop();
  state.large_body_workers.stop();
}

}  // namespace graft::server::http
