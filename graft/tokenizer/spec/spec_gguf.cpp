#include "graft/tokenizer/spec/spec_gguf.h"

#include <string>
#include <string_view>

#include "graft/base/error.h"
#include "graft/base/text/str.h"
#include "graft/tokenizer/steps/pattern.h"
#include "graft/tokenizer/steps/steps.h"

namespace graft::tokenizer {
namespace {

using formats::NamedPreTokenizer;
using formats::TokenizerData;

void read_merges(const TokenizerData& data, Spec& spec) {
  for (const std::string& line : data.merges) {
    // The left token may itself be a space.
    const auto space = line.find(' ', 1);
    if (line.empty() || space == std::string::npos || space + 1 == line.size()) {
      fail("merge ", spec.model.merges.size(), " \"", line, "\" is not a pair");
    }
    spec.model.merges.emplace_back(line.substr(0, space), line.substr(space + 1));
  }
}

void read_scores(const TokenizerData& data, Spec& spec) {
  if (data.scores.size() != data.tokens.size()) {
    fail(data.scores.size(), " scores for ", data.tokens.size(), " tokens");
  }
  spec.model.scores.assign(data.scores.begin(), data.scores.end());
}

void add_step(std::string_view step, Spec& spec) {
  constexpr std::string_view kSplit = "split ";
  constexpr std::string_view kThrees = "threes ";
  if (step.starts_with(kSplit)) {
    spec.pre_tokenizers.push_back({.pattern = translated_pattern(step.substr(kSplit.size()))});
  } else if (step.starts_with(kThrees)) {
    spec.pre_tokenizers.push_back({.kind = PreTokenizerStep::Kind::Threes,
                                   .pattern = translated_pattern(step.substr(kThrees.size()))});
  } else if (step.starts_with("digits")) {
    add_digits(step == "digits 1", spec);
  } else if (step.starts_with("bytelevel")) {
    add_byte_level(false, step == "bytelevel regex", spec);
  }
}

// BPE over characters, as in SentencePiece: spaces become ▁, missing characters <0xNN> tokens.
void read_characters(const TokenizerData& data, Spec& spec) {
  spec.normalizers.push_back({.kind = NormalizerStep::Kind::Replace,
                              .pattern = " ",
                              .content = std::string(kSpaceMarker)});
  spec.model.byte_fallback = true;
  spec.model.fuse_unk = true;
  if (data.unk_id) spec.model.unk_id = static_cast<TokenId>(*data.unk_id);
  spec.decoders = {
      {.kind = DecoderStep::Kind::Replace, .pattern = std::string(kSpaceMarker), .content = " "},
      {.kind = DecoderStep::Kind::ByteFallback}};
}

// Byte-level BPE. Files converted from tiktoken may have no merges: the ids are the ranks.
void read_gpt2(const TokenizerData& data, const NamedPreTokenizer* named, Spec& spec) {
  if (named == nullptr) fail("pre-tokenizer \"", data.pre, "\" is not supported");
  if (named->nfc) spec.normalizers.push_back({.kind = NormalizerStep::Kind::Nfc});
  for (const std::string_view step : named->steps)
    add_step(step, spec);
  spec.model.ignore_merges = named->ignore_merges;
  if (named->is_sentencepiece) {
    read_characters(data, spec);
  } else {
    spec.decoders.push_back({.kind = DecoderStep::Kind::ByteLevel});
  }
  if (!data.merges.empty()) {
    read_merges(data, spec);
    return;
  }
  if (!named->ids_are_ranks) fail("the tokenizer has no merges");
  spec.model.merges_by_score = true;
  for (std::size_t id = 0; id < data.tokens.size(); ++id)
    spec.model.scores.push_back(-static_cast<double>(id));
}

// SentencePiece BPE: spaces become ▁, and one is prepended.
void read_llama(const TokenizerData& data, Spec& spec) {
  const bool has_prefix = data.add_space_prefix.value_or(true);
  if (has_prefix) {
    spec.normalizers.push_back(
        {.kind = NormalizerStep::Kind::Prepend, .content = std::string(kSpaceMarker)});
    strip_one_space(spec);
  }
  spec.normalizers.push_back({.kind = NormalizerStep::Kind::Replace,
                              .pattern = " ",
                              .content = std::string(kSpaceMarker)});
  spec.model.byte_fallback = true;
  spec.model.fuse_unk = true;
  if (data.merges.empty()) {
    spec.model.merges_by_score = true;
    read_scores(data, spec);
  } else {
    read_merges(data, spec);
  }
  spec.decoders = {
      {.kind = DecoderStep::Kind::Replace, .pattern = std::string(kSpaceMarker), .content = " "},
      {.kind = DecoderStep::Kind::ByteFallback}};
}

void read_t5(const TokenizerData& data, Spec& spec) {
  const bool has_prefix = data.add_space_prefix.value_or(true);
  if (!data.precompiled_charsmap.empty()) {
    spec.normalizers.push_back(
        {.kind = NormalizerStep::Kind::Charsmap, .pattern = data.precompiled_charsmap});
  }
  if (data.remove_extra_whitespaces.value_or(false)) {
    spec.normalizers.push_back({.kind = NormalizerStep::Kind::MergeSpaces});
  }
  spec.pre_tokenizers = {
      {.kind = PreTokenizerStep::Kind::Metaspace,
       .pattern = std::string(kSpaceMarker),
       .prepend =
           has_prefix ? PreTokenizerStep::Prepend::Always : PreTokenizerStep::Prepend::Never},
      {.pattern = quoted_pattern(kSpaceMarker), .behavior = SplitBehavior::MergedWithNext}};
  spec.model.kind = ModelSpec::Kind::Unigram;
  spec.model.byte_fallback = true;
  read_scores(data, spec);
  spec.decoders = {
      {.kind = DecoderStep::Kind::Replace, .pattern = std::string(kSpaceMarker), .content = " "},
      {.kind = DecoderStep::Kind::ByteFallback}};
  if (has_prefix) {
    strip_one_space(spec);
  }
}

// Tabs, line breaks and spaces.
constexpr std::string_view kBlanks = R"([\t-\r\x{85}\p{Z}]+)";

// BPE over the characters of words; the spaces between them are dropped.
void read_whitespace(const TokenizerData& data, Spec& spec) {
  if (data.lowercase.value_or(false))
    spec.normalizers.push_back({.kind = NormalizerStep::Kind::Lowercase});
  spec.pre_tokenizers = {{.pattern = std::string(kBlanks), .behavior = SplitBehavior::Removed}};
  spec.model.byte_fallback = true;
  read_merges(data, spec);
  spec.decoders = {{.kind = DecoderStep::Kind::ByteFallback}};
}

// WordPiece: words of letters, and punctuation and Chinese characters by themselves.
void read_bert(const TokenizerData& data, Spec& spec) {
  const bool lowercase = data.lowercase.value_or(true);
  const bool strip_accents = data.strip_accents.value_or(lowercase);
  if (strip_accents) spec.normalizers.push_back({.kind = NormalizerStep::Kind::Nfd});
  if (lowercase) spec.normalizers.push_back({.kind = NormalizerStep::Kind::Lowercase});
  // Control characters but tabs and line breaks.
  constexpr std::string_view kRemoved = R"((?![\t-\r\x{85}])[\p{C}\x{FFFD}])";
  spec.normalizers.push_back(
      {.kind = NormalizerStep::Kind::Replace,
       .pattern = str(kRemoved, strip_accents ? std::string_view(R"(|\p{M})") : ""),
       .is_regex = true});
  spec.pre_tokenizers = {
      {.pattern = std::string(kBlanks), .behavior = SplitBehavior::Removed},
      {.pattern =
           R"([\p{P}$+<=>^`|~\x{3400}-\x{4DBF}\x{4E00}-\x{9FFF}\x{F900}-\x{FAFF}])"
           R"(|[\x{20000}-\x{2A6DF}\x{2A700}-\x{2B81F}\x{2B920}-\x{2CEAF}\x{2F800}-\x{2FA1F}])"}};
  spec.model.kind = ModelSpec::Kind::WordPiece;
  spec.decoders = {
      {.kind = DecoderStep::Kind::Replace, .pattern = std::string(kSpaceMarker), .content = " "}};
  strip_one_space(spec);
  const auto first = data.cls_id ? data.cls_id : data.bos_id;
  if (first && data.add_bos.value_or(true)) spec.prefix.push_back(static_cast<TokenId>(*first));
  if (data.sep_id && data.add_eos.value_or(true))
    spec.suffix.push_back(static_cast<TokenId>(*data.sep_id));
}

void read_added_tokens(const Vocabulary& vocabulary, Spec& spec) {
  for (std::size_t i = 0; i < vocabulary.size(); ++i) {
    const auto id = static_cast<TokenId>(i);
    const bool is_user_defined = vocabulary.type(id) == formats::TokenType::UserDefined;
    if (!is_user_defined && !vocabulary.is_special(id)) continue;
    spec.added_tokens.push_back(
        {.id = id, .content = vocabulary.token(id), .is_special = vocabulary.is_special(id)});
  }
}

// Whether BOS and EOS are added when the file does not specify it.
struct Ends {
  bool bos;
  bool eos;
};

Ends default_ends(const TokenizerData& data, const NamedPreTokenizer* named) {
  if (data.model == "llama") return {true, false};
  if (data.model == "t5") return {false, true};
  return {named != nullptr && named->add_bos, false};
}

}  // namespace

Spec spec_from_gguf(const TokenizerData& data,
                    const Vocabulary& vocabulary,
                    std::span<const formats::PreTokenizerName> names) {
  const NamedPreTokenizer* named = formats::find_named_pre_tokenizer(data.pre, names);
  Spec spec;
  if (data.unk_id) spec.model.unk_id = static_cast<TokenId>(*data.unk_id);
  if (data.model == "gpt2") {
    spec.model.unk_id.reset();  // every byte is a token
    read_gpt2(data, named, spec);
  } else if (data.model == "llama") {
    read_llama(data, spec);
  } else if (data.model == "t5") {
    read_t5(data, spec);
  } else if (data.model == "whitespace") {
    read_whitespace(data, spec);
  } else if (data.model == "bert") {
    read_bert(data, spec);
  } else {
    fail("tokenizer model \"", data.model,
         "\" is not supported (gpt2, llama, t5, bert and whitespace are)");
  }
  read_added_tokens(vocabulary, spec);
  if (data.model == "bert") return spec;
  const Ends ends = default_ends(data, named);
  if (data.bos_id && data.add_bos.value_or(ends.bos)) {
    spec.prefix.push_back(static_cast<TokenId>(*data.bos_id));
  }
  if (data.eos_id && data.add_eos.value_or(ends.eos)) {
    spec.suffix.push_back(static_cast<TokenId>(*data.eos_id));
  }
  return spec;
}

}  // namespace graft::tokenizer
