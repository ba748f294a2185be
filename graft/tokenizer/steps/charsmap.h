// SentencePiece's precompiled_charsmap: a trie of strings and their replacements, mostly NFKC with
// additional rules.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace graft::tokenizer {

class Charsmap {
 public:
  // File layout: u32 size of the trie in bytes, the trie, NUL-terminated replacements. Throws Error
  // for invalid data.
  explicit Charsmap(std::string_view bytes);

  struct Match {
    std::size_t bytes;  // of the text
    std::string_view replacement;
  };
  // The longest or shortest entry that `text` begins with.
  std::optional<Match> longest(std::string_view text) const { return find(text, false); }
  std::optional<Match> shortest(std::string_view text) const { return find(text, true); }

  // Whether any entry begins with this byte.
  bool begins(char c) const { return begins_[static_cast<std::uint8_t>(c)]; }

 private:
  std::optional<Match> find(std::string_view text, bool stops_at_first) const;
  void check_entries() const;

  std::vector<std::uint32_t> units_;  // double array in the format of Darts-clone
  std::string replacements_;
  std::array<bool, 256> begins_{};
};

// As SentencePiece: replaces the longest entry at each position. Returns whether the text changed;
// only then `out` is valid.
bool replace_longest(std::string_view text, const Charsmap& map, std::string& out);

// As Hugging Face tokenizers: a grapheme of up to five bytes is replaced by the replacement of the
// shortest entry it begins with; without one, each of its characters is looked up.
bool replace_graphemes(std::string_view text, const Charsmap& map, std::string& out);

}  // namespace graft::tokenizer
