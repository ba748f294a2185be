// Finds the tokens that are cut out of a text before it is split: special ones and others that were
// added to a vocabulary. The leftmost is found first, of those the longest.

#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include "graft/tokenizer/model/byte_trie.h"
#include "graft/tokenizer/spec/spec.h"

namespace graft::tokenizer {

class AddedTokens {
 public:
  explicit AddedTokens(std::vector<AddedToken> tokens);

  // Hands out the tokens and what stands between them, in order: found(id), text(begin, end).
  // Without `with_special` special tokens are text.
  template <class OnToken, class OnText>
  void split(std::string_view text, bool with_special, OnToken on_token, OnText on_text) const {
    std::size_t done = 0;
    std::size_t from = 0;
    while (const auto found = find(text, from, done, with_special)) {
      if (found->begin > done) on_text(done, found->begin);
      on_token(found->id);
      // May step back: whitespace that one token took along is text or a token all the same when
      // another begins in it.
      done = found->end;
      from = found->next;
    }
    if (done < text.size()) on_text(done, text.size());
  }

 private:
  struct Found {
    std::size_t begin;  // with the whitespace that belongs to it
    std::size_t end;
    std::size_t next;  // where the search goes on: before whitespace that may be a token itself
    TokenId id;
  };

  // The first that begins at `from` or after it. All up to `done` belongs to tokens.
  std::optional<Found> find(std::string_view text,
                            std::size_t from,
                            std::size_t done,
                            bool with_special) const;

  std::vector<AddedToken> tokens_;
  ByteTrie trie_;  // of indices in tokens_
};

}  // namespace graft::tokenizer
