// Special tokens in grammars. A grammar matches bytes; a special token stands for bytes that no
// text has: 0xFF, its name, 0xFF. Ordinary tokens never match them, and text never matches a
// special token.

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graft/grammar/expression.h"
#include "graft/sampling_params.h"
#include "graft/tokenizer/tokenizer.h"

namespace graft::grammar {

struct SpecialToken {
  std::string name = {};
  bool is_end = false;  // it ends the output
};

// Not a byte of UTF-8.
inline constexpr char kSpecialMark = '\xFF';

// The special tokens of a vocabulary; `ends` are those that end the output.
std::vector<SpecialToken> special_tokens(const tokenizer::Tokenizer& tokenizer,
                                         std::span<const TokenId> ends);

// The bytes of a token in grammars. Empty: no grammar matches it.
std::string grammar_bytes(const tokenizer::Tokenizer& tokenizer, TokenId token);

// A text in which the names of special tokens are these tokens. Those that end the output match
// nothing: they are allowed where the text may end.
Expr text_with_tokens(std::string_view text, std::span<const SpecialToken> tokens);

}  // namespace graft::grammar
