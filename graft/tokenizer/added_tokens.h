// Finds the tokens that are cut out of a text before it is split: special ones and others that were
// added to a vocabulary. The leftmost is found first, of those the longest.

#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include "graft/tokenizer/byte_trie.h"
#include "graft/tokenizer/spec.h"

namespace graft::tokenizer {

class AddedTokens {
 public:
  explicit AddedTokens(std::vector<AddedToken> tokens);

  struct Found {
    std::size_t begin;  // with the whitespace that belongs to it
    std::size_t end;
    TokenId id;
  };

  bool empty() const { return tokens_.empty(); }

  // The first in text[from, …). Without `with_special` special tokens are text.
  std::optional<Found> find(std::string_view text, std::size_t from, bool with_special) const;

 private:
  std::vector<AddedToken> tokens_;
  ByteTrie trie_;  // of indices in tokens_
};

}  // namespace graft::tokenizer
