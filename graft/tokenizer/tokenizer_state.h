// What a Tokenizer is made of; for its own files only.

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
#include "graft/tokenizer/steps/normalizer.h"
#include "graft/tokenizer/steps/pre_tokenizer.h"
#include "graft/tokenizer/tokenizer.h"

namespace graft::tokenizer {

// What one call of encode works with; calls that follow reuse it.
struct EncodeScratch {
  RegexScratch regex;
  Normalizer::Scratch normalizer;
  BpeScratch bpe;
  UnigramScratch unigram;
  WordCache cache;
};

class Tokenizer::State {
 public:
  explicit State(const formats::TokenizerData& data);

  std::vector<TokenId> encode(std::string_view text, const EncodeOptions& options) const;

  Vocabulary vocabulary;
  Spec spec;
  std::vector<std::string> bytes;  // what each token adds to a text
  std::optional<TokenId> bos;
  std::optional<TokenId> eos;
  std::vector<TokenId> end_tokens;

 private:
  class Words;

  void encode_word(std::string_view word, EncodeScratch& scratch, std::vector<TokenId>& out) const;
  std::unique_ptr<EncodeScratch> take_scratch() const;
  void free(std::unique_ptr<EncodeScratch> scratch) const;
  void encode_segment(std::string_view segment,
                      bool is_first,
                      const EncodeOptions& options,
                      EncodeScratch& scratch,
                      std::vector<TokenId>& out) const;
  void find_end_tokens(const formats::TokenizerData& data);

  Normalizer normalizer_;
  AddedTokens added_;             // looked for in the text as it is
  AddedTokens added_normalized_;  // and in what the normaliser made of it
  PreTokenizer pre_tokenizer_;
  std::variant<Bpe, Unigram> model_;
  bool cuts_at_spaces_ = false;

  // One for each thread that ever encoded at the same time.
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<EncodeScratch>> free_;
};

}  // namespace graft::tokenizer
