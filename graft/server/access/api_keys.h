// Who may ask. Keys are kept as SHA-256 digests, and compared in a time that says nothing about
// them.

#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

#include "graft/server/http/message.h"

namespace graft::server {

// 64 bits of the text's SHA-256.
std::uint64_t salt_of_text(std::string_view text);

class ApiKeys {
 public:
  // A line per key: the key itself, or "sha256:" and the 64 digits of its digest. Blank lines and
  // those that begin with # say nothing. `where` opens the message of the Error.
  void add_lines(std::string_view text, const std::string& where);
  // Keys between commas, as an environment variable has them.
  void add_list(std::string_view text);

  // Without any, everybody may ask.
  bool empty() const { return digests_.empty(); }

  // A number for the key of the request (Authorization: Bearer, or x-api-key), the same for every
  // run of the server; nothing when it has none that is known. Prefix caches are kept apart by it.
  std::optional<std::uint64_t> salt_of(const http::Request& request) const;

 private:
  using Digest = std::array<unsigned char, 32>;

  static Digest digest_of(std::string_view key);
  static Digest parse_digest(std::string_view hex, const std::string& where);

  std::vector<Digest> digests_;
};

}  // namespace graft::server
