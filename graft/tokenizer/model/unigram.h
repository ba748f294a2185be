// The unigram model: segments a word into the tokens with the highest sum of scores (log
// probabilities), found with the Viterbi algorithm.

#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "graft/tokenizer/model/byte_trie.h"
#include "graft/tokenizer/model/vocabulary.h"
#include "graft/tokenizer/spec/spec.h"

namespace graft::tokenizer {

// Buffers that the calls of one thread reuse.
struct UnigramScratch {
  // The best segmentation up to a byte of the word.
  struct Node {
    double score;
    std::size_t begin;  // of the last token
    TokenId id;         // of the last token; -1: unreachable
  };
  std::vector<Node> nodes;
};

class Unigram {
 public:
  // Throws Error that names the token when a score is NaN.
  Unigram(const ModelSpec& spec, const Vocabulary& vocabulary);

  void encode(std::string_view word, UnigramScratch& scratch, std::vector<TokenId>& out) const;

 private:
  void find_best(std::string_view word, std::vector<UnigramScratch::Node>& nodes) const;
  void push_unknown(std::string_view text, std::vector<TokenId>& out) const;

  bool byte_fallback_;
  TokenId unk_id_;  // -1: none
  std::vector<TokenId> bytes_;
  std::vector<double> scores_;
  double unknown_score_;
  ByteTrie trie_;
};

}  // namespace graft::tokenizer
