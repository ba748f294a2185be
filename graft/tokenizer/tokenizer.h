// Encodes text to token ids and decodes them, with the same ids as the model's original tokenizer.
//
// The pipeline: added tokens are extracted, the rest is normalized, split into words
// (pre-tokenized) and encoded by the model (byte-level BPE, SentencePiece BPE, unigram or
// WordPiece). It is built from tokenizer.json if the checkpoint has one, else from GGUF metadata;
// both give the same ids.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graft/formats/pre_tokenizers.h"
#include "graft/formats/tokenizer_data.h"
#include "graft/tokenizer/spec/spec.h"

namespace graft::tokenizer {

struct EncodeOptions {
  bool add_special = true;    // add BOS and EOS as the model defines
  bool parse_special = true;  // text that equals a special token becomes that token
};

class Tokenizer {
 public:
  // `names`: values of tokenizer.ggml.pre that the model families add to the general ones. Throws
  // Error that names the entry when the vocabulary is inconsistent.
  explicit Tokenizer(const formats::TokenizerData& data,
                     std::span<const formats::PreTokenizerName> names = {});
  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;
  ~Tokenizer();

  // Accepts any bytes: invalid UTF-8 is encoded byte by byte. Thread-safe.
  std::vector<TokenId> encode(std::string_view text, const EncodeOptions& options = {}) const;

  // A lower bound of encode(text).size() from the bytes of the text and the longest token, much
  // faster than encoding; 0 when the tokenizer has steps that remove text.
  std::int64_t min_tokens(std::string_view text) const;

  // The exact bytes of the tokens, without special (control) tokens unless `keep_special`. Ids
  // outside the vocabulary are ignored.
  std::string decode(std::span<const TokenId> ids, bool keep_special = false) const;

  std::int64_t vocab_size() const;
  // As written in the vocabulary ("Ġhello", "▁hello", "<|im_end|>").
  std::string_view token(TokenId id) const;
  // The inverse of token().
  std::optional<TokenId> find(std::string_view token) const;
  // The bytes the token adds to a text, except as its first token.
  std::string_view bytes(TokenId id) const;
  bool is_special(TokenId id) const;  // control or unknown token

  std::optional<TokenId> bos() const;
  std::optional<TokenId> eos() const;
  // All tokens that end a response: EOS, end of turn, end of message.
  std::span<const TokenId> end_tokens() const;

 private:
  friend class Detokenizer;
  class State;
  std::unique_ptr<const State> state_;
};

}  // namespace graft::tokenizer
