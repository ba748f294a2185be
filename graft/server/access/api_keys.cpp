#include "graft/server/access/api_keys.h"

#include <algorithm>
#include <cstring>

#include <openssl/crypto.h>
#include <openssl/sha.h>

#include "graft/base/error.h"
#include "graft/base/text/ascii.h"

namespace graft::server {
namespace {

constexpr std::string_view kKeyBlanks = " \t\r";

// Calls use(item, number) for every trimmed item; numbers start at 1.
template <class Use>
void split(std::string_view text, char separator, const Use& use) {
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::string_view item = text.substr(0, text.find(separator));
    use(trimmed(item, kKeyBlanks), number);
    text.remove_prefix(std::min(item.size() + 1, text.size()));
  }
}

std::string_view key_of(const http::Request& request) {
  const std::string_view authorization = request.header("authorization");
  constexpr std::string_view kBearer = "bearer ";
  const auto is_same = [](char a, char b) { return (a | 0x20) == (b | 0x20); };
  if (authorization.size() > kBearer.size() &&
      std::ranges::equal(authorization.substr(0, kBearer.size()), kBearer, is_same))
    return trimmed(authorization.substr(kBearer.size()), kKeyBlanks);
  return trimmed(request.header("x-api-key"), kKeyBlanks);
}

}  // namespace

std::uint64_t salt_of_text(std::string_view text) {
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest = {};
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data());
  std::uint64_t salt = 0;
  std::memcpy(&salt, digest.data(), sizeof(salt));
  return salt;
}

ApiKeys::Digest ApiKeys::digest_of(std::string_view key) {
  Digest digest = {};
  SHA256(reinterpret_cast<const unsigned char*>(key.data()), key.size(), digest.data());
  return digest;
}

ApiKeys::Digest ApiKeys::parse_digest(std::string_view hex, const std::string& where) {
  Digest digest = {};
  constexpr std::string_view kDigits = "0123456789abcdef";
  if (hex.size() != digest.size() * 2)
    fail(where, ": a SHA-256 digest has 64 hexadecimal digits, got ", hex.size());
  for (std::size_t i = 0; i < digest.size(); ++i) {
    const std::size_t high = kDigits.find(static_cast<char>(hex[2 * i] | 0x20));
    const std::size_t low = kDigits.find(static_cast<char>(hex[2 * i + 1] | 0x20));
    if (high == std::string_view::npos || low == std::string_view::npos)
      fail(where, ": the SHA-256 digest has a character that is not a hexadecimal digit");
    digest[i] = static_cast<unsigned char>(high * 16 + low);
  }
  return digest;
}

void ApiKeys::add_lines(std::string_view text, const std::string& where) {
  constexpr std::string_view kHashed = "sha256:";
  split(text, '\n', [&](std::string_view line, std::size_t number) {
    if (line.empty() || line.starts_with('#')) return;
    digests_.push_back(line.starts_with(kHashed)
                           ? parse_digest(line.substr(kHashed.size()), str(where, ":", number))
                           : digest_of(line));
  });
}

void ApiKeys::add_list(std::string_view text) {
  split(text, ',', [&](std::string_view key, std::size_t) {
    if (!key.empty()) digests_.push_back(digest_of(key));
  });
}

std::optional<std::uint64_t> ApiKeys::salt_of(const http::Request& request) const {
  const Digest given = digest_of(key_of(request));
  // Compares with every key, even after a match: constant time.
  bool is_known = false;
  for (const Digest& digest : digests_)
    is_known = (CRYPTO_memcmp(digest.data(), given.data(), digest.size()) == 0) || is_known;
  if (!is_known) return std::nullopt;
  return salt_of_text(key_of(request));
}

}  // namespace graft::server
