// WordPiece (BERT): cuts a word into the longest tokens from left to right. A word that cannot be
// cut so is one unknown token. As in GGUF files, a token at the start of a word begins with ▁.

#pragma once

#include <string_view>
#include <vector>

#include "graft/tokenizer/model/byte_trie.h"
#include "graft/tokenizer/model/vocabulary.h"
#include "graft/tokenizer/spec/spec.h"

namespace graft::tokenizer {

class WordPiece {
 public:
  WordPiece(const ModelSpec& spec, const Vocabulary& vocabulary);

  void encode(std::string_view word, std::vector<TokenId>& out) const;

 private:
  TokenId unk_id_;  // -1: none
  ByteTrie trie_;
};

}  // namespace graft::tokenizer
