// API keys, stored as SHA-256 digests and compared in constant time.

#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

#include "graft/server/http/message.h"

namespace graft::server {

// The first 64 bits of the SHA-256 of `text`.
std::uint64_t salt_of_text(std::string_view text);

class ApiKeys {
 public:
  // One key per line: plain, or "sha256:" and the 64 hexadecimal digits of its digest. Blank lines
  // and lines that start with # are skipped. Throws Error; `where` is the subject of its message.
  void add_lines(std::string_view text, const std::string& where);
  // Comma-separated keys (environment variable GRAFT_API_KEYS).
  void add_list(std::string_view text);

  // Without keys every request is accepted.
  bool empty() const { return digests_.empty(); }
  std::size_t size() const { return digests_.size(); }

  // The prefix-cache salt of the request's key (Authorization: Bearer, or x-api-key), stable across
  // restarts; nullopt when the key is missing or unknown.
  std::optional<std::uint64_t> salt_of(const http::Request& request) const;

 private:
  using Digest = std::array<unsigned char, 32>;

  static Digest digest_of(std::string_view key);
  static Digest parse_digest(std::string_view hex, const std::string& where);

  std::vector<Digest> digests_;
};

}  // namespace graft::server
