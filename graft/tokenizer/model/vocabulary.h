// The vocabulary: tokens by id and by text, and the two spellings of single bytes.

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "graft/formats/tokenizer_data.h"
#include "graft/tokenizer/spec/spec.h"

namespace graft::tokenizer {

class Vocabulary {
 public:
  // Throws Error that names the token when two used tokens have the same text.
  explicit Vocabulary(const formats::TokenizerData& data);
  // Not copyable: the index points into the tokens.
  Vocabulary(const Vocabulary&) = delete;
  Vocabulary& operator=(const Vocabulary&) = delete;
  ~Vocabulary() = default;

  std::size_t size() const { return tokens_.size(); }
  bool contains(TokenId id) const { return id >= 0 && static_cast<std::size_t>(id) < size(); }
  const std::string& token(TokenId id) const { return tokens_[static_cast<std::size_t>(id)]; }
  formats::TokenType type(TokenId id) const { return types_[static_cast<std::size_t>(id)]; }
  std::optional<TokenId> find(std::string_view token) const;

  // A token that text can be encoded to: not a control, unknown, byte or unused token.
  bool is_plain(TokenId id) const {
    return type(id) == formats::TokenType::Normal || type(id) == formats::TokenType::UserDefined;
  }
  bool is_special(TokenId id) const {
    return type(id) == formats::TokenType::Control || type(id) == formats::TokenType::Unknown;
  }

 private:
  std::vector<std::string> tokens_;
  std::vector<formats::TokenType> types_;
  std::unordered_map<std::string_view, TokenId> ids_;
};

// Byte-level vocabularies (GPT-2) write each byte as a letter ("Ġ" for a space). Null if a
// character of `token` is not one of these letters.
std::optional<std::string> bytes_of_letters(std::string_view token);
std::string byte_level_encode(std::string_view bytes);

// The byte of a token such as "<0x0A>".
std::optional<std::uint8_t> parse_byte_token(std::string_view token);

// Ids of the tokens for single bytes, -1 if missing. `by_letter`: byte-level letters, else
// "<0xNN>".
std::vector<TokenId> byte_ids(const Vocabulary& vocabulary, bool by_letter);

}  // namespace graft::tokenizer
