// How the server listens, and what it bears from clients.

#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace graft::server::http {

struct Limits {
  double header_seconds = 10;      // for the head of a request, from its first byte
  double body_seconds = 60;        // for its body
  double idle_seconds = 75;        // between two requests
  double write_seconds = 60;       // for the client to take what lies in its way
  double keep_alive_seconds = 15;  // without anything to send on a stream
  std::size_t max_header_bytes = 32U << 10U;
  std::size_t max_body_bytes = 32U << 20U;
  std::size_t max_total_body_bytes = 1U << 30U;  // of all that are being read, or wait
  // Of a stream, waiting for a slow reader. An answer of 100k tokens is about as long.
  std::size_t max_buffered_bytes = 4U << 20U;
  std::size_t max_connections = 10'000;  // more wait until others end
};

struct Config {
  std::string host = "127.0.0.1";
  std::uint16_t port = 8000;                   // 0: any that is free
  std::filesystem::path tls_certificate = {};  // chain, PEM; empty: no TLS
  std::filesystem::path tls_key = {};
  std::size_t num_workers = 4;  // threads that run handlers
  Limits limits = {};
};

}  // namespace graft::server::http
