// The implementation of Tokenizer. Private: included by tokenizer.cpp and detokenizer.cpp only.

#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "graft/tokenizer/added_tokens.h"
#include "graft/tokenizer/model/bpe.h"
#include "graft/tokenizer/model/unigram.h"
#include "graft/tokenizer/model/vocabulary.h"
#include "graft/tokenizer/model/word_cache.h"
#include "graft/tokenizer/model/word_piece.h"
#include "graft/tokenizer/steps/normalizer.h"
#include "graft/tokenizer/steps/pre_tokenizer.h"
#include "graft/tokenizer/token_bound.h"
#include "graft/tokenizer/tokenizer.h"

namespace graft::tokenizer {

// Buffers of one encode() call, reused by later calls.
struct EncodeScratch {
  RegexScratch regex;
  Normalizer::Scratch normalizer;
  BpeScratch bpe;
  UnigramScratch unigram;
  WordCache cache;
};

class Tokenizer::State {
 public:
  State(const formats::TokenizerData& data, std::span<const formats::PreTokenizerName> names);

  std::vector<TokenId> encode(std::string_view text, const EncodeOptions& options) const;

  Vocabulary vocabulary;
  Spec spec;
  std::vector<std::string> bytes;  // by id: the bytes the token adds to a text
  std::optional<TokenId> bos;
  std::optional<TokenId> eos;
  std::vector<TokenId> end_tokens;
  TokenBound bound;

 private:
  class WordEncoder;

  void encode_word(std::string_view word, EncodeScratch& scratch, std::vector<TokenId>& out) const;
  std::unique_ptr<EncodeScratch> acquire_scratch() const;
  void release_scratch(std::unique_ptr<EncodeScratch> scratch) const;
  void encode_segment(std::string_view segment,
                      bool is_first,
                      const EncodeOptions& options,
                      EncodeScratch& scratch,
                      std::vector<TokenId>& out) const;
  void find_end_tokens(const formats::TokenizerData& data);

  Normalizer normalizer_;
  AddedTokens added_;             // matched in the original text
  AddedTokens added_normalized_;  // matched in the normalized text
  PreTokenizer pre_tokenizer_;
  std::variant<Bpe, Unigram, WordPiece> model_;
  bool splits_at_spaces_ = false;

  // Pool with one entry per concurrent encode() call.
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<EncodeScratch>> free_scratch_;
};

}  // namespace graft::tokenizer
