#include "graft/server/access/api_keys.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <openssl/crypto.h>
#include <openssl/sha.h>

#include "graft/base/error.h"
#include "graft/base/text/ascii.h"

namespace graft::server {
namespace {

constexpr std::string_view kKeyBlanks = " \t\r";
constexpr std::string_view kHexDigits = "0123456789abcdef";

// Calls use(item, number) for every trimmed item; numbers start at 1.
template <class Use>
void split(std::string_view text, char separator, const Use& use) {
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::string_view item = text.substr(0, text.find(separator));
    use(trimmed(item, kKeyBlanks), number);
    text.remove_prefix(std::min(item.size() + 1, text.size()));
  }
}

ApiKey::Digest digest_of(std::string_view key) {
  ApiKey::Digest digest = {};
  SHA256(reinterpret_cast<const unsigned char*>(key.data()), key.size(), digest.data());
  return digest;
}

bool is_key_name(std::string_view text) {
  const auto is_allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '-' || c == '_';
  };
  return !text.empty() && std::ranges::all_of(text, is_allowed);
}

}  // namespace

std::string_view key_of(const http::Request& request) {
  const std::string_view authorization = request.header("authorization");
  constexpr std::string_view kBearer = "bearer ";
  const auto is_same = [](char a, char b) { return (a | 0x20) == (b | 0x20); };
  if (authorization.size() > kBearer.size() &&
      std::ranges::equal(authorization.substr(0, kBearer.size()), kBearer, is_same))
    return trimmed(authorization.substr(kBearer.size()), kKeyBlanks);
  return trimmed(request.header("x-api-key"), kKeyBlanks);
}

std::uint64_t salt_of_text(std::string_view text) {
  return ApiKey{.digest = digest_of(text)}.id();
}

std::uint64_t ApiKey::id() const {
  std::uint64_t id = 0;
  std::memcpy(&id, digest.data(), sizeof(id));
  return id;
}

std::string ApiKey::short_digest() const {
  constexpr std::size_t kShortBytes = 6;
  std::string text;
  for (std::size_t i = 0; i < kShortBytes; ++i) {
    text += kHexDigits[digest[i] / 16U];
    text += kHexDigits[digest[i] % 16U];
  }
  return text;
}

ApiKey::Digest parse_digest(std::string_view hex, const std::string& where) {
  ApiKey::Digest digest = {};
  if (hex.size() != digest.size() * 2)
    fail(where, ": a SHA-256 digest has 64 hexadecimal digits, got ", hex.size());
  for (std::size_t i = 0; i < digest.size(); ++i) {
    const std::size_t high = kHexDigits.find(static_cast<char>(hex[2 * i] | 0x20));
    const std::size_t low = kHexDigits.find(static_cast<char>(hex[2 * i + 1] | 0x20));
    if (high == std::string_view::npos || low == std::string_view::npos)
      fail(where, ": the SHA-256 digest has a character that is not a hexadecimal digit");
    digest[i] = static_cast<unsigned char>(high * 16 + low);
  }
  return digest;
}

void ApiKeys::add_line(std::string_view line, const std::string& where) {
  constexpr std::string_view kHashed = "sha256:";
  constexpr std::string_view kName = "name=";
  ApiKey key;
  std::size_t num_words = 0;
  std::string_view rest = line;
  while (!rest.empty()) {
    const std::string_view word = rest.substr(0, rest.find_first_of(kKeyBlanks));
    rest = trimmed(rest.substr(word.size()), kKeyBlanks);
    if (num_words++ == 0) {
      key.digest = word.starts_with(kHashed) ? parse_digest(word.substr(kHashed.size()), where)
                                             : digest_of(word);
    } else if (word == "admin") {
      key.is_admin = true;
    } else if (word.starts_with(kName) && is_key_name(word.substr(kName.size()))) {
      key.name = word.substr(kName.size());
    } else {
      // The word may be a part of a key with a blank: it is not printed.
      fail(where, ": word ", num_words - 1, " after the key is neither admin nor name=NAME with ",
           "letters, digits, '.', '-' or '_'");
    }
  }
  if (!key.name.empty() && std::ranges::find(keys_, key.name, &ApiKey::name) != keys_.end())
    fail(where, ": two keys are named ", key.name);
  keys_.push_back(std::move(key));
}

void ApiKeys::add_lines(std::string_view text, const std::string& where) {
  split(text, '\n', [&](std::string_view line, std::size_t number) {
    if (!line.empty() && !line.starts_with('#')) add_line(line, str(where, ":", number));
  });
}

void ApiKeys::add_list(std::string_view text) {
  split(text, ',', [&](std::string_view key, std::size_t) {
    if (!key.empty()) keys_.push_back({.digest = digest_of(key)});
  });
}

const ApiKey* ApiKeys::find(const http::Request& request) const {
  const ApiKey::Digest given = digest_of(key_of(request));
  // Compares with every key, even after a match: constant time.
  const ApiKey* found = nullptr;
  for (const ApiKey& key : keys_) {
    const bool is_same = CRYPTO_memcmp(key.digest.data(), given.data(), given.size()) == 0;
    if (is_same && found == nullptr) found = &key;
  }
  return found;
}

}  // namespace graft::server
