// SentencePiece's table of replacements (precompiled_charsmap): which strings of a text become
// which others, mostly NFKC with rules of its own.

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
  // The bytes as files have them: the size of the trie, the trie, replacements that end with NUL.
  // Throws Error when they cannot be that.
  explicit Charsmap(std::string_view bytes);

  struct Match {
    std::size_t bytes;  // of the text
    std::string_view replacement;
  };
  // Of the entries that `text` begins with the longest or the shortest.
  std::optional<Match> longest(std::string_view text) const { return find(text, false); }
  std::optional<Match> shortest(std::string_view text) const { return find(text, true); }

  // Whether an entry begins with this byte.
  bool begins(char c) const { return begins_[static_cast<std::uint8_t>(c)]; }

 private:
  std::optional<Match> find(std::string_view text, bool stops_at_first) const;
  void check_entries() const;

  std::vector<std::uint32_t> units_;  // a double array, as Darts-clone writes it
  std::string replacements_;
  std::array<bool, 256> begins_{};
};

// As SentencePiece does it: the longest entry at each place. Whether the text changed; `out` is the
// new one then.
bool replace_longest(std::string_view text, const Charsmap& map, std::string& out);

// As Hugging Face tokenizers do it: a grapheme of under six bytes becomes what the shortest entry
// it begins with becomes; where there is none, each of its characters for itself.
bool replace_graphemes(std::string_view text, const Charsmap& map, std::string& out);

}  // namespace graft::tokenizer
