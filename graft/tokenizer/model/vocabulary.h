// The tokens by id and by spelling, and what each adds to a text.

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
  // Throws Error that names the token when two tokens are spelled alike.
  explicit Vocabulary(const formats::TokenizerData& data);
  // The index points to the tokens.
  Vocabulary(const Vocabulary&) = delete;
  Vocabulary& operator=(const Vocabulary&) = delete;
  ~Vocabulary() = default;

  std::size_t size() const { return tokens_.size(); }
  bool contains(TokenId id) const { return id >= 0 && static_cast<std::size_t>(id) < size(); }
  const std::string& token(TokenId id) const { return tokens_[static_cast<std::size_t>(id)]; }
  formats::TokenType type(TokenId id) const { return types_[static_cast<std::size_t>(id)]; }
  std::optional<TokenId> find(std::string_view token) const;

  // A token that text can be made of: no control token, no filler.
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

// Byte-level vocabularies write each byte as a letter ("Ġ" for a space). Nothing when a letter of
// `token` stands for no byte.
std::optional<std::string> bytes_of_letters(std::string_view token);
std::string letters_of_bytes(std::string_view bytes);

// The byte of a token spelled "<0x0A>".
std::optional<std::uint8_t> byte_of_name(std::string_view token);

// Ids of the tokens for single bytes, -1 where there is none: by letter or by name.
std::vector<TokenId> byte_ids(const Vocabulary& vocabulary, bool by_letter);

}  // namespace graft::tokenizer
