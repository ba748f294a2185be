// Splits template text into tokens as Jinja does with trim_blocks and lstrip_blocks: the newline
// after a block tag and the whitespace before one at the start of a line are dropped.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace graft::jinja {

enum class TokenKind : std::uint8_t {
  Data,
  VariableBegin,
  VariableEnd,
  BlockBegin,
  BlockEnd,
  Name,
  String,
  Integer,
  Float,
  Operator,
  End,
};

struct Token {
  TokenKind kind = TokenKind::End;
  int line = 1;
  std::string text;  // of strings: with escapes resolved
  std::int64_t integer = 0;
  double real = 0;
};

// The last token is End. Throws Error "name:3: unexpected char '!'".
std::vector<Token> tokenize(std::string_view source, const std::string& name);

}  // namespace graft::jinja
