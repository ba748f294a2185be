#include "graft/tokenizer/token_bound.h"

#include <algorithm>

namespace graft::tokenizer {
namespace {

// Unicode normalization and lower case keep every ASCII character and shorten others at most by
// this factor: 4 bytes of a mathematical letter become 1, 9 of three Hangul jamo become 3.
constexpr std::size_t kMaxShrink = 8;

// Whether every character of a text ends up in a token of its own or a longer one.
bool keeps_unknown_characters(const ModelSpec& model, const Vocabulary& vocabulary) {
  if (model.byte_level || model.byte_fallback) {
    const std::vector<TokenId> ids = byte_ids(vocabulary, model.byte_level);
    if (std::ranges::find(ids, -1) == ids.end()) return true;
  }
  // A unigram model joins unknown characters to one token.
  return model.kind == ModelSpec::Kind::Bpe && model.unk_id && !model.fuse_unk;
}

std::size_t longest_token(const Spec& spec,
                          const Vocabulary& vocabulary,
                          const std::vector<std::string>& bytes) {
  std::size_t longest = 4;  // an unknown character
  for (std::size_t i = 0; i < vocabulary.size(); ++i) {
    const auto id = static_cast<TokenId>(i);
    // Byte-level letters are longer than the bytes they stand for.
    const bool has_letters = spec.model.byte_level && vocabulary.is_plain(id);
    longest = std::max({longest, bytes[i].size(), has_letters ? 0 : vocabulary.token(id).size()});
  }
  for (const AddedToken& token : spec.added_tokens) {
    // Normalization may lengthen the content, which is then matched in the normalized text.
    const std::size_t factor = token.normalized ? 4 : 1;
    longest = std::max(longest, token.content.size() * factor);
  }
  return longest;
}

}  // namespace

TokenBound::TokenBound(const Spec& spec,
                       const Vocabulary& vocabulary,
                       const std::vector<std::string>& bytes)
    : longest_(longest_token(spec, vocabulary, bytes)) {
  for (const NormalizerStep& step : spec.normalizers)
    add_normalizer(step);
  for (const PreTokenizerStep& step : spec.pre_tokenizers) {
    const bool is_split = step.kind == PreTokenizerStep::Kind::Split;
    if (is_split && step.behavior == SplitBehavior::Removed) remove();
    if (step.kind == PreTokenizerStep::Kind::Metaspace && step.pattern.empty()) remove();
  }
  for (const AddedToken& token : spec.added_tokens)
    may_remove_blanks_ = may_remove_blanks_ || token.lstrip || token.rstrip;
  if (!keeps_unknown_characters(spec.model, vocabulary)) remove();
}

void TokenBound::add_normalizer(const NormalizerStep& step) {
  using Kind = NormalizerStep::Kind;
  switch (step.kind) {
    case Kind::Nfc:
    case Kind::Nfd:
    case Kind::Nfkc:
    case Kind::Nfkd:
    case Kind::Lowercase:
      may_shrink_unicode_ = true;
      break;
    case Kind::Replace:
      if (step.is_regex || step.content.size() < step.pattern.size()) remove();
      break;
    case Kind::Prepend:
      break;
    case Kind::Strip:
    case Kind::MergeSpaces:
      may_remove_blanks_ = true;
      break;
    case Kind::Charsmap:
      remove();
      break;
  }
}

std::int64_t TokenBound::min_tokens(std::string_view text) const {
  if (longest_ == 0) return 0;
  std::size_t num_printable = 0;
  std::size_t num_blanks = 0;  // and control characters
  std::size_t num_others = 0;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    ++(byte >= 0x80 ? num_others : byte > 0x20 && byte < 0x7f ? num_printable : num_blanks);
  }
  std::size_t num_bytes = num_printable;
  // Some blanks are outside ASCII.
  if (!may_remove_blanks_)
    num_bytes += num_blanks + (may_shrink_unicode_ ? num_others / kMaxShrink : num_others);
  return static_cast<std::int64_t>((num_bytes + longest_ - 1) / longest_);
}

}  // namespace graft::tokenizer
