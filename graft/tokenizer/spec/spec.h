// What one tokenizer does, step by step, in words that both tokenizer.json and GGUF metadata are
// translated into. Data only; the parts that do it are made from this.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace graft::tokenizer {

using TokenId = std::int32_t;

// What happens to the matches of a pattern and to what stands between them.
enum class SplitBehavior : std::uint8_t {
  Removed,             // matches vanish
  Isolated,            // each is a piece
  MergedWithPrevious,  // belongs to the piece before it
  MergedWithNext,
  Contiguous,  // neighbouring matches are one piece
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
    MergeSpaces,  // several spaces become one, those at the end none
  };
  Kind kind = Kind::Nfc;
  std::string pattern = {};  // Replace: text, or a PCRE2 pattern; Charsmap: its bytes
  bool is_regex = false;     // Replace
  std::string content = {};  // Replace, Prepend
  bool left = true;          // Strip
  bool right = true;
  bool by_graphemes = false;  // Charsmap: as Hugging Face tokenizers look things up
};

struct PreTokenizerStep {
  enum class Kind : std::uint8_t {
    Split,
    PrefixSpace,  // a space before a piece that begins with none
    Metaspace,    // spaces become `pattern`, one more stands before the piece
  };
  enum class Prepend : std::uint8_t { Never, First, Always };
  Kind kind = Kind::Split;
  std::string pattern = {};  // Split: PCRE2; Metaspace: what spaces become
  SplitBehavior behavior = SplitBehavior::Isolated;
  bool invert = false;                // Split: what lies between the matches counts as match
  Prepend prepend = Prepend::Always;  // Metaspace; First: only at the begin of the text
};

struct AddedToken {
  TokenId id = 0;
  std::string content = {};
  bool is_special = false;
  bool single_word = false;  // only where no word goes on before or after it
  bool lstrip = false;       // takes the whitespace before it along
  bool rstrip = false;
  bool normalized = false;  // looked for in the normalised text
};

struct ModelSpec {
  enum class Kind : std::uint8_t { Bpe, Unigram };
  Kind kind = Kind::Bpe;
  bool byte_level = false;     // symbols are bytes, in the vocabulary written as letters
  bool byte_fallback = false;  // characters outside the vocabulary become <0xNN>
  bool ignore_merges = false;  // a word that is a token needs no merging
  bool fuse_unk = false;
  std::optional<TokenId> unk_id;
  // Best first. Where there are none, pairs merge by the score of what they make.
  std::vector<std::pair<std::string, std::string>> merges;
  bool merges_by_score = false;
  std::vector<double> scores;  // by id; log probabilities for Unigram
};

// From a token, as the vocabulary spells it, to what it adds to the text.
struct DecoderStep {
  enum class Kind : std::uint8_t { ByteLevel, ByteFallback, Replace, Strip };
  Kind kind = Kind::ByteLevel;
  std::string pattern = {};  // Replace: text, or a PCRE2 pattern
  bool is_regex = false;     // Replace
  std::string content = {};  // Replace: instead; Strip: what is taken off
  std::size_t start = 0;     // Strip: at most so often
  std::size_t stop = 0;
};

struct Spec {
  std::vector<NormalizerStep> normalizers;
  std::vector<PreTokenizerStep> pre_tokenizers;
  std::vector<AddedToken> added_tokens;
  ModelSpec model;
  std::vector<DecoderStep> decoders;
  // Taken off the begin of a whole text, at most `strip_count` times.
  std::string strip_start;
  std::size_t strip_count = 0;
  std::string separator;        // before each token but the first
  std::vector<TokenId> prefix;  // special tokens before a text
  std::vector<TokenId> suffix;
};

}  // namespace graft::tokenizer
