// Limits per client, from flags and the file of --limits. A client is an API key, or an address on
// a server without keys.

#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "graft/server/access/api_keys.h"

namespace graft::server {

// nullopt: unlimited.
struct ClientLimits {
  std::optional<std::int64_t> requests_per_minute = {};
  std::optional<std::int64_t> tokens_per_minute = {};  // of prompts and output
  // Running and queued answers. As many as two of the largest requests (--max-answers).
  std::optional<std::int64_t> concurrent_answers = 4096;
  // Prompt tokens of answers without a first token. 32 prompts of 128 Ki tokens.
  std::optional<std::int64_t> queued_tokens = 4 << 20;
};

class LimitTable {
 public:
  // The same limits for every client.
  explicit LimitTable(const ClientLimits& limits = {}) : default_(limits) {}

  // Reads YAML:
  //   default: {requests_per_minute: 600, tokens_per_minute: 100000}
  //   keys:
  //     alice: {concurrent_answers: 4}            # the name of a key
  //     "sha256:3fc4…": {queued_tokens: unlimited}  # the digest of a key
  // A key has the default limits unless it sets its own, and the default has those of `flags`.
  // Throws Error; `where` is the subject of its message.
  static LimitTable parse(const std::string& text,
                          const std::string& where,
                          const ClientLimits& flags,
                          const ApiKeys& keys);

  const ClientLimits& of(std::uint64_t client) const;

 private:
  ClientLimits default_;
  std::map<std::uint64_t, ClientLimits> by_client_;
};

}  // namespace graft::server
