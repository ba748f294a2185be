// Finds added tokens (special tokens and others added to the vocabulary), which are extracted from
// a text before it is split. Matches are leftmost, then longest.

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

  // Calls on_token(id) for each added token and on_text(begin, end) for the text between them, in
  // order. Without `with_special`, special tokens are text.
  template <class OnToken, class OnText>
  void split(std::string_view text, bool with_special, OnToken on_token, OnText on_text) const {
    std::size_t consumed = 0;
    std::size_t from = 0;
    while (const auto found = find(text, from, consumed, with_special)) {
      if (found->begin > consumed) on_text(consumed, found->begin);
      on_token(found->id);
      // `from` may be before `consumed`: a token can begin in the whitespace that the previous one
      // stripped.
      consumed = found->end;
      from = found->next;
    }
    if (consumed < text.size()) on_text(consumed, text.size());
  }

 private:
  struct Match {
    std::size_t begin;  // including stripped whitespace
    std::size_t end;
    std::size_t next;  // where the search continues: before the stripped whitespace
    TokenId id;
  };

  // The first token at or after `from`. Bytes before `consumed` already belong to tokens.
  std::optional<Match> find(std::string_view text,
                            std::size_t from,
                            std::size_t consumed,
                            bool with_special) const;

  std::vector<AddedToken> tokens_;
  ByteTrie trie_;  // values are indices into tokens_
};

}  // namespace graft::tokenizer
