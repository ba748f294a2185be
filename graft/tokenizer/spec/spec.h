// The configuration of a tokenizer as a list of steps. tokenizer.json and GGUF metadata are both
// translated into it, and the normalizer, pre-tokenizer, model and decoder are built from it.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace graft::tokenizer {

using TokenId = std::int32_t;

inline constexpr std::string_view kSpaceMarker = "\u2581";  // ▁, SentencePiece's space

// What Split does with the matches of its pattern (Hugging Face's names).
enum class SplitBehavior : std::uint8_t {
  Removed,             // matches are dropped
  Isolated,            // each match is a piece
  MergedWithPrevious,  // a match is appended to the piece before it
  MergedWithNext,
  Contiguous,  // adjacent matches are one piece
};

struct NormalizerStep {
  enum class Kind : std::uint8_t {
    Nfc,
    Nfd,
    Nfkc,
    Nfkd,
    Replace,
    Prepend,
    Lowercase,
    Strip,
    Charsmap,     // SentencePiece's table of replacements
    MergeSpaces,  // collapses runs of spaces and removes trailing spaces
  };
  Kind kind = Kind::Nfc;
  std::string pattern = {};  // Replace: text, or a PCRE2 pattern; Charsmap: its bytes
  bool is_regex = false;     // Replace
  std::string content = {};  // Replace, Prepend
  bool left = true;          // Strip
  bool right = true;
  bool by_graphemes = false;  // Charsmap: replace_graphemes() instead of replace_longest()
};

struct PreTokenizerStep {
  enum class Kind : std::uint8_t {
    Split,
    Threes,       // isolates matches, cut into groups of three characters from their end
    PrefixSpace,  // adds a space before a piece that does not begin with one
    Metaspace,    // replaces spaces by `pattern` and prepends one
  };
  enum class Prepend : std::uint8_t { Never, First, Always };
  Kind kind = Kind::Split;
  std::string pattern = {};  // Split, Threes: PCRE2; Metaspace: the replacement of a space
  SplitBehavior behavior = SplitBehavior::Isolated;
  bool invert = false;                // Split: swaps matches and the text between them
  Prepend prepend = Prepend::Always;  // Metaspace; First: only at the start of the text
};

struct AddedToken {
  TokenId id = 0;
  std::string content = {};
  bool is_special = false;
  bool single_word = false;  // matches only between non-word characters
  bool lstrip = false;       // also consumes the whitespace before it
  bool rstrip = false;
  bool normalized = false;  // matched in the normalized text
};

struct ModelSpec {
  enum class Kind : std::uint8_t { Bpe, Unigram, WordPiece };
  Kind kind = Kind::Bpe;
  bool byte_level = false;     // symbols are bytes, written as letters in the vocabulary
  bool byte_fallback = false;  // characters outside the vocabulary become <0xNN> tokens
  bool ignore_merges = false;  // a word that is a token is not merged
  bool fuse_unk = false;
  std::optional<TokenId> unk_id;
  std::vector<std::pair<std::string, std::string>> merges;  // best first
  bool merges_by_score = false;  // no merges: pairs merge by the score of the merged token
  std::vector<double> scores;    // by id; log probabilities for Unigram
};

// One step from a token in the vocabulary to the text it stands for.
struct DecoderStep {
  enum class Kind : std::uint8_t { ByteLevel, ByteFallback, Replace, Strip };
  Kind kind = Kind::ByteLevel;
  std::string pattern = {};  // Replace: text, or a PCRE2 pattern
  bool is_regex = false;     // Replace
  std::string content = {};  // Replace: the replacement; Strip: the text to remove
  std::size_t start = 0;     // Strip: max removals at the start
  std::size_t stop = 0;      // Strip: max removals at the end
};

struct Spec {
  std::vector<NormalizerStep> normalizers;
  std::vector<PreTokenizerStep> pre_tokenizers;
  std::vector<AddedToken> added_tokens;
  ModelSpec model;
  std::vector<DecoderStep> decoders;
  // Removed from the start of a decoded text, at most `strip_count` times.
  std::string strip_start;
  std::size_t strip_count = 0;
  std::string separator;        // between tokens
  std::vector<TokenId> prefix;  // special tokens before a text
  std::vector<TokenId> suffix;
};

}  // namespace graft::tokenizer
