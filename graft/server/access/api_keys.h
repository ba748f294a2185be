// API keys, stored as SHA-256 digests and compared in constant time.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "graft/server/http/message.h"

namespace graft::server {

// The first 64 bits of the SHA-256 of `text`.
std::uint64_t salt_of_text(std::string_view text);

struct ApiKey {
  using Digest = std::array<unsigned char, 32>;

  Digest digest = {};     // SHA-256 of the key
  std::string name = {};  // for --limits; empty: none
  bool is_admin = false;  // may set `priority`

  // Prefix-cache salt and client id: salt_of_text() of the key, stable across restarts.
  std::uint64_t id() const;
  // The first 12 hexadecimal digits of the digest, for metrics.
  std::string short_digest() const;
};

// The key that a request carries (Authorization: Bearer, or x-api-key), known or not; empty: none.
std::string_view key_of(const http::Request& request);

// The digest of 64 hexadecimal digits. Throws Error; `where` is the subject of its message.
ApiKey::Digest parse_digest(std::string_view hex, const std::string& where);

class ApiKeys {
 public:
  // One key per line: plain, or "sha256:" and the 64 hexadecimal digits of its digest. After a
  // blank may follow "name=NAME" and "admin". Blank lines and lines that start with # are skipped.
  // Throws Error; `where` is the subject of its message.
  void add_lines(std::string_view text, const std::string& where);
  // Comma-separated keys (environment variable GRAFT_API_KEYS).
  void add_list(std::string_view text);

  // Without keys every request is accepted.
  bool empty() const { return keys_.empty(); }
  std::size_t size() const { return keys_.size(); }
  const std::vector<ApiKey>& list() const { return keys_; }

  // The key of a request (Authorization: Bearer, or x-api-key); null when it is missing or unknown.
  const ApiKey* find(const http::Request& request) const;

 private:
  void add_line(std::string_view line, const std::string& where);

  std::vector<ApiKey> keys_;
};

}  // namespace graft::server
