#include "graft/tokenizer/spec/json_steps.h"

#include <array>
#include <optional>
#include <utility>

#include "graft/base/text/base64.h"
#include "graft/tokenizer/spec/json_access.h"
#include "graft/tokenizer/steps/pattern.h"
#include "graft/tokenizer/steps/steps.h"

namespace graft::tokenizer {
namespace {

constexpr std::string_view kNormalizer = "normalizer";
constexpr std::string_view kPreTokenizer = "pre_tokenizer";
constexpr std::string_view kDecoder = "decoder";

// {"String": "…"} or {"Regex": "…"}
struct Pattern {
  std::string text;
  bool is_regex;
};

Pattern pattern_at(const Json& json, std::string_view where) {
  const Json* pattern = member(json, "pattern");
  if (pattern != nullptr) {
    const Json* text = member(*pattern, "String");
    if (text != nullptr && text->is_string()) return {text->get<std::string>(), false};
    const Json* regex = member(*pattern, "Regex");
    if (regex != nullptr && regex->is_string()) return {regex->get<std::string>(), true};
  }
  fail(where, ": \"pattern\" must be {\"String\": …} or {\"Regex\": …}");
}

SplitBehavior behavior_at(const Json& json, std::optional<SplitBehavior> fallback) {
  constexpr std::array<std::pair<std::string_view, SplitBehavior>, 5> kBehaviors = {{
      {"Removed", SplitBehavior::Removed},
      {"Isolated", SplitBehavior::Isolated},
      {"MergedWithPrevious", SplitBehavior::MergedWithPrevious},
      {"MergedWithNext", SplitBehavior::MergedWithNext},
      {"Contiguous", SplitBehavior::Contiguous},
  }};
  if (fallback && member(json, "behavior") == nullptr) return *fallback;
  const std::string name = text_at(json, "behavior", kPreTokenizer);
  for (const auto& [known, behavior] : kBehaviors) {
    if (name == known) return behavior;
  }
  fail(kPreTokenizer, ": behavior \"", name, "\" is not supported");
}

PreTokenizerStep split_of(const Json& json) {
  const Pattern pattern = pattern_at(json, kPreTokenizer);
  if (pattern.text.empty()) fail(kPreTokenizer, ": Split has an empty pattern");
  return {
      .pattern = pattern.is_regex ? translated_pattern(pattern.text) : quoted_pattern(pattern.text),
      .behavior = behavior_at(json, std::nullopt),
      .invert = flag_at(json, "invert", false, kPreTokenizer)};
}

// prepend_scheme, or add_prefix_space in old files.
PreTokenizerStep::Prepend prepend_of(const Json& json, std::string_view where) {
  using Prepend = PreTokenizerStep::Prepend;
  if (!flag_at(json, "add_prefix_space", true, where)) return Prepend::Never;
  if (member(json, "prepend_scheme") == nullptr) return Prepend::Always;
  const std::string scheme = text_at(json, "prepend_scheme", where);
  if (scheme == "always") return Prepend::Always;
  if (scheme == "first") return Prepend::First;
  if (scheme == "never") return Prepend::Never;
  fail(where, ": prepend_scheme \"", scheme, "\" is not supported");
}

void add_metaspace(const Json& json, Spec& spec) {
  const std::string marker = text_at(json, "replacement", kPreTokenizer);
  if (marker.empty()) fail(kPreTokenizer, ": Metaspace has an empty replacement");
  spec.pre_tokenizers.push_back({.kind = PreTokenizerStep::Kind::Metaspace,
                                 .pattern = marker,
                                 .prepend = prepend_of(json, kPreTokenizer)});
  if (flag_at(json, "split", true, kPreTokenizer)) {
    spec.pre_tokenizers.push_back(
        {.pattern = quoted_pattern(marker), .behavior = SplitBehavior::MergedWithNext});
  }
}

void add_replace_or_strip(const Json& json, const std::string& type, bool is_fused, Spec& spec) {
  DecoderStep step;
  if (type == "Replace") {
    const Pattern pattern = pattern_at(json, kDecoder);
    if (is_fused) fail(kDecoder, ": Replace after Fuse is not supported");
    step.kind = DecoderStep::Kind::Replace;
    step.pattern = pattern.is_regex ? translated_pattern(pattern.text) : pattern.text;
    step.is_regex = pattern.is_regex;
    step.content = text_at(json, "content", kDecoder);
    spec.decoders.push_back(std::move(step));
    return;
  }
  const auto count_at = [&json](const char* key) {
    const Json* value = member(json, key);
    if (value == nullptr || !value->is_number_unsigned())
      fail(kDecoder, ": Strip lacks \"", key, '"');
    return value->get<std::size_t>();
  };
  step.kind = DecoderStep::Kind::Strip;
  step.content = text_at(json, "content", kDecoder);
  step.start = count_at("start");
  step.stop = count_at("stop");
  if (step.content.empty()) fail(kDecoder, ": Strip has an empty content");
  if (!is_fused) {
    spec.decoders.push_back(std::move(step));
    return;
  }
  if (step.stop != 0) fail(kDecoder, ": Strip at the end of the text is not supported");
  spec.strip_start = step.content;
  spec.strip_count = step.start;
}

void add_decoder(const Json& json, bool& is_fused, Spec& spec) {
  const std::string type = type_of(json, kDecoder);
  if (type == "Sequence") {
    for (const Json& part : list_at(json, "decoders", kDecoder))
      add_decoder(part, is_fused, spec);
  } else if (type == "Fuse") {
    is_fused = true;
  } else if (type == "Replace" || type == "Strip") {
    add_replace_or_strip(json, type, is_fused, spec);
  } else if (type == "ByteLevel" && !is_fused) {
    spec.decoders.push_back({.kind = DecoderStep::Kind::ByteLevel});
  } else if (type == "ByteFallback" && !is_fused) {
    spec.decoders.push_back({.kind = DecoderStep::Kind::ByteFallback});
  } else if (type == "Metaspace" && !is_fused) {
    spec.decoders.push_back({.kind = DecoderStep::Kind::Replace,
                             .pattern = text_at(json, "replacement", kDecoder),
                             .content = " "});
    if (prepend_of(json, kDecoder) != PreTokenizerStep::Prepend::Never) {
      strip_one_space(spec);
    }
  } else {
    fail(kDecoder, ": \"", type, is_fused ? "\" after Fuse" : "\"", " is not supported");
  }
}

}  // namespace

void read_normalizer(const Json& json, Spec& spec) {
  using Kind = NormalizerStep::Kind;
  constexpr std::array<std::pair<std::string_view, Kind>, 5> kPlain = {{
      {"NFC", Kind::Nfc},
      {"NFD", Kind::Nfd},
      {"NFKC", Kind::Nfkc},
      {"NFKD", Kind::Nfkd},
      {"Lowercase", Kind::Lowercase},
  }};
  if (json.is_null()) return;
  const std::string type = type_of(json, kNormalizer);
  for (const auto& [name, kind] : kPlain) {
    if (type != name) continue;
    spec.normalizers.push_back({.kind = kind});
    return;
  }
  if (type == "Sequence") {
    for (const Json& part : list_at(json, "normalizers", kNormalizer))
      read_normalizer(part, spec);
  } else if (type == "Prepend") {
    spec.normalizers.push_back(
        {.kind = Kind::Prepend, .content = text_at(json, "prepend", kNormalizer)});
  } else if (type == "Strip") {
    spec.normalizers.push_back({.kind = Kind::Strip,
                                .left = flag_at(json, "strip_left", true, kNormalizer),
                                .right = flag_at(json, "strip_right", true, kNormalizer)});
  } else if (type == "Replace") {
    const Pattern pattern = pattern_at(json, kNormalizer);
    spec.normalizers.push_back(
        {.kind = Kind::Replace,
         .pattern = pattern.is_regex ? translated_pattern(pattern.text) : pattern.text,
         .is_regex = pattern.is_regex,
         .content = text_at(json, "content", kNormalizer)});
  } else if (type == "Precompiled") {
    auto charsmap = base64_decode(text_at(json, "precompiled_charsmap", kNormalizer));
    if (!charsmap) fail(kNormalizer, ": precompiled_charsmap is not base64");
    // Empty is SentencePiece's "identity" normalization.
    if (charsmap->empty()) return;
    spec.normalizers.push_back(
        {.kind = Kind::Charsmap, .pattern = *std::move(charsmap), .by_graphemes = true});
  } else {
    fail(kNormalizer, ": \"", type, "\" is not supported");
  }
}

void read_pre_tokenizer(const Json& json, Spec& spec) {
  if (json.is_null()) return;
  const std::string type = type_of(json, kPreTokenizer);
  if (type == "Sequence") {
    for (const Json& part : list_at(json, "pretokenizers", kPreTokenizer))
      read_pre_tokenizer(part, spec);
    return;
  }
  // After ByteLevel, patterns would match the letters that stand for bytes.
  if (spec.model.byte_level) fail(kPreTokenizer, ": ", type, " after ByteLevel is not supported");
  if (type == "Split") {
    spec.pre_tokenizers.push_back(split_of(json));
  } else if (type == "ByteLevel") {
    add_byte_level(flag_at(json, "add_prefix_space", true, kPreTokenizer),
                   flag_at(json, "use_regex", true, kPreTokenizer), spec);
  } else if (type == "Digits") {
    add_digits(flag_at(json, "individual_digits", false, kPreTokenizer), spec);
  } else if (type == "Punctuation") {
    spec.pre_tokenizers.push_back({.pattern = R"([\p{P}!-\/:-@\[-`{-~])",
                                   .behavior = behavior_at(json, SplitBehavior::Isolated)});
  } else if (type == "WhitespaceSplit") {
    spec.pre_tokenizers.push_back(
        {.pattern = translated_pattern("\\s"), .behavior = SplitBehavior::Removed});
  } else if (type == "Whitespace") {
    // Runs of Rust's \w, which includes the joiners, and runs of other non-space characters.
    spec.pre_tokenizers.push_back(
        {.pattern = translated_pattern(R"([\w\x{200C}\x{200D}]+|[^\w\x{200C}\x{200D}\s]+)"),
         .behavior = SplitBehavior::Removed,
         .invert = true});
  } else if (type == "CharDelimiterSplit") {
    spec.pre_tokenizers.push_back(
        {.pattern = quoted_pattern(text_at(json, "delimiter", kPreTokenizer)),
         .behavior = SplitBehavior::Removed});
  } else if (type == "Metaspace") {
    add_metaspace(json, spec);
  } else {
    fail(kPreTokenizer, ": \"", type, "\" is not supported");
  }
}

void read_decoder(const Json& json, Spec& spec) {
  if (json.is_null()) {
    // Without a decoder, tokens are joined with spaces.
    spec.separator.assign(1, ' ');
    strip_one_space(spec);
    return;
  }
  bool is_fused = false;
  add_decoder(json, is_fused, spec);
}

}  // namespace graft::tokenizer
