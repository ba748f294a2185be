// Concurrent streaming clients of an OpenAI-compatible server, all on one thread.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace graft::cli {

struct ServerAddress {
  std::string host = {};
  std::string port = {};
  std::string base = {};     // path prefix before /v1
  std::string api_key = {};  // empty: none
};

// Parses "http://host:port", optionally with a path prefix before /v1. Throws Error.
ServerAddress parse_server_url(const std::string& url);

// The first model of /v1/models. Throws Error when the request fails.
std::string first_model(const ServerAddress& address);

// One streamed response. Times are in seconds since the request was sent.
struct StreamResult {
  std::string failure = {};                // empty: success
  std::vector<double> chunk_seconds = {};  // arrival of each chunk with text
  double seconds = 0;                      // total
  std::int64_t prompt_tokens = 0;
  std::int64_t output_tokens = 0;
};

// A client posts its bodies one after the other and reads the event streams.
struct ClientLoad {
  std::vector<std::string> bodies = {};
  std::string api_key = {};   // empty: that of the address
  double repeat_seconds = 0;  // sends the bodies again until this time has passed; 0: each once
};
struct LoadResult {
  std::vector<StreamResult> streams = {};
  double seconds = 0;  // from the first request to the end of the last stream
};
LoadResult run_load(const ServerAddress& address,
                    const std::string& path,
                    const std::vector<ClientLoad>& clients);

// Parses the complete SSE events of `text` from offset `next` on into the result. Returns the
// offset to continue from when more text has arrived.
std::size_t read_events(std::string_view text, std::size_t next, double now, StreamResult& result);

}  // namespace graft::cli
