#include "graft/tokenizer/model/vocabulary.h"

#include <array>

#include "graft/base/error.h"
#include "graft/formats/byte_letters.h"
#include "graft/tokenizer/steps/unicode.h"

namespace graft::tokenizer {
namespace {

constexpr std::size_t kMaxTokens = std::size_t{1} << 24U;

// Inverse of formats::kByteLetters: code point -> byte, -1 for other code points.
struct Letters {
  std::array<std::int16_t, 0x180> to_byte{};

  constexpr Letters() {
    to_byte.fill(-1);
    for (std::size_t byte = 0; byte < 256; ++byte) {
      to_byte[static_cast<std::size_t>(formats::kByteLetters[byte])] =
          static_cast<std::int16_t>(byte);
    }
  }
};

constexpr Letters kLetters;

}  // namespace

Vocabulary::Vocabulary(const formats::TokenizerData& data)
    : tokens_(data.tokens), types_(data.types) {
  if (tokens_.empty()) fail("the vocabulary is empty");
  if (tokens_.size() > kMaxTokens) {
    fail("the vocabulary has ", tokens_.size(), " tokens, the maximum is ", kMaxTokens);
  }
  if (types_.empty()) types_.assign(tokens_.size(), formats::TokenType::Normal);
  if (types_.size() != tokens_.size()) {
    fail("the vocabulary has ", tokens_.size(), " tokens and ", types_.size(), " types");
  }
  ids_.reserve(tokens_.size());
  for (std::size_t i = 0; i < tokens_.size(); ++i) {
    const auto id = static_cast<TokenId>(i);
    if (tokens_[i].empty()) continue;
    const auto [entry, is_new] = ids_.emplace(tokens_[i], id);
    if (is_new || types_[i] == formats::TokenType::Unused) continue;
    if (type(entry->second) != formats::TokenType::Unused) {
      fail("token \"", tokens_[i], "\" has two ids, ", entry->second, " and ", id);
    }
    entry->second = id;
  }
}

std::optional<TokenId> Vocabulary::find(std::string_view token) const {
  const auto found = ids_.find(token);
  return found == ids_.end() ? std::nullopt : std::optional(found->second);
}

std::optional<std::string> bytes_of_letters(std::string_view token) {
  std::string bytes;
  while (!token.empty()) {
    const Character c = first_character(token);
    if (c.code < 0 || static_cast<std::size_t>(c.code) >= kLetters.to_byte.size()) {
      return std::nullopt;
    }
    const auto byte = kLetters.to_byte[static_cast<std::size_t>(c.code)];
    if (byte < 0) return std::nullopt;
    bytes += static_cast<char>(byte);
    token.remove_prefix(c.bytes);
  }
  return bytes;
}

std::string byte_level_encode(std::string_view bytes) {
  std::string token;
  for (const char c : bytes)
    append_utf8(formats::kByteLetters[static_cast<std::uint8_t>(c)], token);
  return token;
}

std::optional<std::uint8_t> parse_byte_token(std::string_view token) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  if (token.size() != 6 || !token.starts_with("<0x") || token.back() != '>') return std::nullopt;
  const auto high = kDigits.find(token[3]);
  const auto low = kDigits.find(token[4]);
  if (high == std::string_view::npos || low == std::string_view::npos) return std::nullopt;
  return static_cast<std::uint8_t>(high * 16 + low);
}

std::vector<TokenId> byte_ids(const Vocabulary& vocabulary, bool by_letter) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::vector<TokenId> ids;
  for (std::size_t byte = 0; byte < 256; ++byte) {
    const char c = static_cast<char>(static_cast<std::uint8_t>(byte));
    const std::string name = by_letter ? byte_level_encode({&c, 1})
                                       : str("<0x", kDigits[byte / 16], kDigits[byte % 16], '>');
    ids.push_back(vocabulary.find(name).value_or(-1));
  }
  return ids;
}

}  // namespace graft::tokenizer
