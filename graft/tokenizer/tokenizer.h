// Text to token ids and back, as the model's own tokenizer does it.
//
// One pipeline serves all: added tokens are cut out, the rest is normalised, split into words, and
// each word becomes ids by its model (byte-level BPE, SentencePiece BPE, unigram). It is built from
// tokenizer.json where the checkpoint has one and from the words of GGUF otherwise; both give the
// same ids.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graft/formats/tokenizer_data.h"
#include "graft/tokenizer/spec/spec.h"

namespace graft::tokenizer {

struct EncodeOptions {
  bool add_special = true;    // BOS and EOS where the model wants them
  bool parse_special = true;  // text that spells a special token is that token
};

class Tokenizer {
 public:
  // Throws Error that names the entry when the vocabulary contradicts itself.
  explicit Tokenizer(const formats::TokenizerData& data);
  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;
  ~Tokenizer();

  // Any bytes: those that are no UTF-8 are encoded one by one. May be called from several threads.
  std::vector<TokenId> encode(std::string_view text, const EncodeOptions& options = {}) const;

  // The bytes of the tokens, exactly; special (control) tokens are left out unless asked for.
  // Ids outside the vocabulary add nothing.
  std::string decode(std::span<const TokenId> ids, bool keep_special = false) const;

  std::int64_t vocab_size() const;
  // As the vocabulary spells it ("Ġhello", "▁hello", "<|im_end|>").
  std::string_view token(TokenId id) const;
  // The id of exactly that entry.
  std::optional<TokenId> find(std::string_view token) const;
  // The bytes the token adds to a text in which it does not come first.
  std::string_view bytes(TokenId id) const;
  bool is_special(TokenId id) const;  // a control token: never shown

  std::optional<TokenId> bos() const;
  std::optional<TokenId> eos() const;
  // All that end an answer: EOS, end of turn, end of message.
  std::span<const TokenId> end_tokens() const;

 private:
  friend class Detokenizer;
  class State;
  std::unique_ptr<const State> state_;
};

}  // namespace graft::tokenizer
