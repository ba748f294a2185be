#include "graft/grammar/special_tokens.h"

#include <algorithm>

#include "graft/base/text/str.h"

namespace graft::grammar {

std::vector<SpecialToken> special_tokens(const tokenizer::Tokenizer& tokenizer,
                                         std::span<const TokenId> ends) {
  std::vector<SpecialToken> tokens;
  const auto num_tokens = static_cast<TokenId>(tokenizer.vocab_size());
  for (TokenId id = 0; id < num_tokens; ++id) {
    const bool is_end = std::ranges::find(ends, id) != ends.end();
    if ((is_end || tokenizer.is_special(id)) && !tokenizer.token(id).empty())
      tokens.push_back({.name = std::string(tokenizer.token(id)), .is_end = is_end});
  }
  return tokens;
}

std::string grammar_bytes(const tokenizer::Tokenizer& tokenizer, TokenId token) {
  if (tokenizer.is_special(token)) return str(kSpecialMark, tokenizer.token(token), kSpecialMark);
  const std::string_view bytes = tokenizer.bytes(token);
  return bytes.find(kSpecialMark) == std::string_view::npos ? std::string(bytes) : std::string();
}

Expr text_with_tokens(std::string_view text, std::span<const SpecialToken> tokens) {
  std::string out;
  while (!text.empty()) {
    const SpecialToken* longest = nullptr;
    for (const SpecialToken& token : tokens) {
      if (text.starts_with(token.name) &&
          (longest == nullptr || token.name.size() > longest->name.size()))
        longest = &token;
    }
    if (longest == nullptr) {
      out += text.front();
      text.remove_prefix(1);
      continue;
    }
    if (!longest->is_end) out += str(kSpecialMark, longest->name, kSpecialMark);
    text.remove_prefix(longest->name.size());
  }
  return literal(out);
}

}  // namespace graft::grammar
