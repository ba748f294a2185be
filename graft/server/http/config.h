// Listening address, TLS, and limits on clients.

#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace graft::server::http {

struct Limits {
  double header_seconds = 10;      // to receive the request headers, from the first byte
  double body_seconds = 60;        // to receive the request body
  double idle_seconds = 75;        // between two requests of a connection
  double write_seconds = 60;       // to write 64 KiB to the client
  double keep_alive_seconds = 15;  // SSE keep-alive interval
  std::size_t max_header_bytes = 32U << 10U;
  std::size_t max_body_bytes = 32U << 20U;
  std::size_t max_total_body_bytes = 1U << 30U;  // over all requests being received or queued
  // Output of a request that is not written yet, before the engine pauses the request.
  std::size_t max_buffered_bytes = 4U << 20U;
  std::size_t max_connections = 10'000;  // beyond that, new connections wait in the listen backlog
};

// Time to end running responses after SIGTERM, in seconds from the signal.
struct Drain {
  // The port stays open at least this long, so that load balancers see that /ready fails.
  double min_seconds = 1;
  // Then connections are cut. Docker and Kubernetes kill after 10 s and 30 s by default.
  double max_seconds = 30;
};

struct Config {
  std::string host = "127.0.0.1";
  std::uint16_t port = 8000;                   // 0: any free port
  std::filesystem::path tls_certificate = {};  // PEM certificate chain; empty: no TLS
  std::filesystem::path tls_key = {};
  std::size_t num_workers = 4;  // handler threads
  // Requests with larger bodies are handled one after the other, at a low priority: a body of
  // many MiB takes a second to parse, which the model's threads would wait for. 64 KiB are some
  // 16,000 tokens.
  std::size_t large_body_bytes = 64U << 10U;
  Limits limits = {};
  Drain drain = {};
};

}  // namespace graft::server::http
