#include "graft/engine/tiers/block_key.h"

#include <array>
#include <cstring>

#include <xxhash.h>

namespace graft::engine {
namespace {

// Raise it when the meaning of a block's bytes changes without a change of the cache form.
constexpr std::uint64_t kKeyVersion = 1;
constexpr std::uint64_t kStateSeed = 0x5354415445ULL;

BlockKey key_of(XXH128_hash_t hash) {
  return {.high = hash.high64, .low = hash.low64};
}

void append(std::string& text, std::uint64_t value) {
  std::array<char, sizeof(value)> bytes = {};
  std::memcpy(bytes.data(), &value, sizeof(value));
  text.append(bytes.data(), bytes.size());
}

// With its length: "ab" + "c" differs from "a" + "bc".
void append_text(std::string& text, const std::string& part) {
  append(text, part.size());
  text += part;
}

}  // namespace

BlockKey root_key(const CacheIdentity& identity) {
  std::string text;
  append(text, kKeyVersion);
  append_text(text, identity.model);
  append_text(text, identity.cache_form);
  append(text, static_cast<std::uint64_t>(identity.block_tokens));
  append(text, identity.salt);
  append(text, identity.uses_long_rope ? 1 : 0);
  return key_of(XXH3_128bits(text.data(), text.size()));
}

BlockKey child_key(const BlockKey& parent, std::span<const TokenId> tokens) {
  const XXH128_hash_t hash = XXH3_128bits_withSeed(tokens.data(), tokens.size_bytes(), parent.low);
  const std::array<std::uint64_t, 4> both = {parent.high, parent.low, hash.high64, hash.low64};
  return key_of(XXH3_128bits(both.data(), sizeof(both)));
}

BlockKey state_key(const BlockKey& block) {
  return key_of(XXH3_128bits_withSeed(&block, sizeof(block), kStateSeed));
}

std::string to_hex(const BlockKey& key) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string hex;
  for (const std::uint64_t half : {key.high, key.low}) {
    for (int shift = 60; shift >= 0; shift -= 4)
      hex += kDigits[(half >> static_cast<unsigned>(shift)) & 0xFU];
  }
  return hex;
}

std::optional<BlockKey> parse_block_key(std::string_view hex) {
  if (hex.size() != 32) return std::nullopt;
  BlockKey key;
  for (std::size_t i = 0; i < hex.size(); ++i) {
    const char c = hex[i];
    const bool is_digit = c >= '0' && c <= '9';
    if (!is_digit && !(c >= 'a' && c <= 'f')) return std::nullopt;
    std::uint64_t& half = i < 16 ? key.high : key.low;
    half = half << 4U | static_cast<std::uint64_t>(is_digit ? c - '0' : c - 'a' + 10);
  }
  return key;
}

}  // namespace graft::engine
