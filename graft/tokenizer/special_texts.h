// Keeps text that spells a special token ("<|im_start|>") text: a chat template would otherwise let
// the words of a user end the user's turn. Marks are inserted into such words before the template
// is rendered; afterwards they are removed, and the prompt is encoded in pieces that are cut there.

#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graft/tokenizer/model/byte_trie.h"
#include "graft/tokenizer/tokenizer.h"

namespace graft::tokenizer {

// A text without its marks, and where they stood: byte positions, ascending.
struct UnmarkedText {
  std::string text;
  std::vector<std::size_t> cuts;
};
UnmarkedText unmark(std::string_view text);

class SpecialTexts {
 public:
  // The tokenizer must outlive it. `further` are texts that are treated as special tokens.
  explicit SpecialTexts(const Tokenizer& tokenizer, std::vector<std::string> further = {});

  // The text with a mark after the first character of every special token that it spells, other
  // than those in `allowed`. unmark() restores any text.
  std::string marked(std::string_view text, std::span<const std::string_view> allowed = {}) const;

  // The tokens of a text without BOS and EOS; no special token reaches across a cut. `is_first`:
  // the text is the start of the prompt.
  std::vector<TokenId> encode(std::string_view text,
                              std::span<const std::size_t> cuts,
                              bool is_first = true) const;

 private:
  const Tokenizer* tokenizer_;
  std::vector<std::string> texts_;
  ByteTrie trie_;         // values are indices into texts_
  std::string boundary_;  // a special token before a piece: it is not the start of the prompt
};

}  // namespace graft::tokenizer
