// Clients of an OpenAI-compatible server, many at once from one thread: what its users would see.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace graft::cli {

struct ServerAddress {
  std::string host = {};
  std::string port = {};
  std::string base = {};     // what stands before /v1 in every path
  std::string api_key = {};  // empty: none
};

// "http://host:port" or with a path before /v1. Throws Error for other addresses.
ServerAddress parse_server_url(const std::string& url);

// The first model that the server names. Throws Error when it does not answer.
std::string first_model(const ServerAddress& address);

// One answer as it came. Seconds count from the moment the request was sent.
struct StreamResult {
  std::string failure = {};                // empty: it came whole
  std::vector<double> piece_seconds = {};  // when each piece of text came
  double seconds = 0;
  std::int64_t prompt_tokens = 0;
  std::int64_t output_tokens = 0;
};

// Each of `clients` posts its bodies one after the other and reads the streams of events.
using ClientBodies = std::vector<std::string>;
struct LoadResult {
  std::vector<StreamResult> streams = {};
  double seconds = 0;  // from the first request to the last end
};
LoadResult run_load(const ServerAddress& address,
                    const std::string& path,
                    const std::vector<ClientBodies>& clients);

// Takes the events that are whole from `text`, beginning at `next`, into the result; the place from
// which on it must be called again when there is more.
std::size_t read_events(std::string_view text, std::size_t next, double now, StreamResult& result);

}  // namespace graft::cli
