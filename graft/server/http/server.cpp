#include "graft/server/http/server.h"

#include <csignal>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

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

std::unique_ptr<asio::ssl::context> tls_of(const Config& config) {
  if (config.tls_certificate.empty() != config.tls_key.empty())
    fail("TLS needs both a certificate and its private key");
  if (config.tls_certificate.empty()) return nullptr;
  auto context = std::make_unique<asio::ssl::context>(asio::ssl::context::tls_server);
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

}  // namespace

struct Server::State {
  explicit State(Config given)
      : config(std::move(given)),
        tls(tls_of(config)),
        acceptor(io),
        slot_freed(io),
        signals(io),
        workers(config.num_workers) {
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
  }

  asio::awaitable<void> accept_all() {
    while (!hub.is_draining) {
      ErrorCode error;
      if (hub.connections.size() >= config.limits.max_connections) {
        slot_freed.expires_at(std::chrono::steady_clock::time_point::max());
        co_await slot_freed.async_wait(asio::redirect_error(asio::use_awaitable, error));
        continue;
      }
      Tcp::socket socket(io);
      co_await acceptor.async_accept(socket, asio::redirect_error(asio::use_awaitable, error));
      if (!error) {
        serve_connection(std::move(socket), tls.get(), hub);
      } else if (!hub.is_draining) {
        // For example out of file descriptors: retry after other connections have closed.
        slot_freed.expires_after(std::chrono::milliseconds(100));
        co_await slot_freed.async_wait(asio::redirect_error(asio::use_awaitable, error));
      }
    }
  }

  void wait_for_signal() {
    signals.async_wait([this](const ErrorCode& error, int) {
      if (error) return;
      if (hub.is_draining) {
        io.stop();
        return;
      }
      drain();
      wait_for_signal();
    });
  }

  void drain() {
    hub.is_draining = true;
    if (hub.hooks.on_drain) hub.hooks.on_drain();
    ErrorCode ignored;
    acceptor.close(ignored);
    slot_freed.cancel();
    const auto open = hub.connections;  // a copy: closing removes them from the set
    for (OpenConnection* connection : open)
      connection->close_if_idle();
    stop_when_drained();
  }

  void stop_when_drained() {
    if (hub.is_draining && hub.connections.empty()) io.stop();
  }

  const Config config;
  // Declared before `io`: connections destroyed with the I/O context still use the hub.
  Hub hub = {.io = io, .workers = workers, .limits = config.limits, .hooks = {}};
  asio::io_context io{1};
  std::unique_ptr<asio::ssl::context> tls;
  Tcp::acceptor acceptor;
  asio::steady_timer slot_freed;  // cancelled when a connection closes
  asio::signal_set signals;
  WorkerPool workers;
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

void Server::run(Hooks hooks) {
  State& state = *state_;
  state.hub.hooks = std::move(hooks);
  state.hub.on_closed = [&state] {
    state.slot_freed.cancel();
    state.stop_when_drained();
  };
  state.wait_for_signal();
  asio::co_spawn(state.io, state.accept_all(), asio::detached);
  state.io.run();
  state.workers.stop();
}

}  // namespace graft::server::http
