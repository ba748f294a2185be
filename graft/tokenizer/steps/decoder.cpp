#include "graft/tokenizer/steps/decoder.h"

#include <optional>
#include <string_view>
#include <unordered_set>

#include "graft/base/text/regex.h"
#include "graft/tokenizer/steps/unicode.h"

namespace graft::tokenizer {
namespace {

using DecoderKind = DecoderStep::Kind;

void replace_all(std::string& text, std::string_view pattern, std::string_view content) {
  if (pattern.empty()) return;
  for (auto at = text.find(pattern); at != std::string::npos;
       at = text.find(pattern, at + content.size()))
    text.replace(at, pattern.size(), content);
}

void replace_all(std::string& text,
                 const Regex& regex,
                 std::string_view content,
                 RegexScratch& scratch) {
  if (!is_utf8(text)) return;  // an invalid byte matches nothing
  std::string out;
  std::size_t from = 0;
  while (from < text.size()) {
    const auto match = regex.find(text, from, scratch);
    if (!match || match->begin == match->end) break;
    out += std::string_view(text).substr(from, match->begin - from);
    out += content;
    from = match->end;
  }
  text = out + text.substr(from);
}

void strip(std::string& text, const DecoderStep& step) {
  for (std::size_t i = 0; i < step.start && text.starts_with(step.content); ++i)
    text.erase(0, step.content.size());
  for (std::size_t i = 0; i < step.stop && text.ends_with(step.content); ++i)
    text.erase(text.size() - step.content.size());
}

void decode(const DecoderStep& step,
            const std::optional<Regex>& regex,
            bool is_added,
            RegexScratch& scratch,
            std::string& text) {
  switch (step.kind) {
    case DecoderKind::ByteLevel:
      if (auto bytes = bytes_of_letters(text); bytes && !is_added) text = *std::move(bytes);
      break;
    case DecoderKind::ByteFallback:
      if (const auto byte = parse_byte_token(text)) text.assign(1, static_cast<char>(*byte));
      break;
    case DecoderKind::Replace:
      if (regex) {
        replace_all(text, *regex, step.content, scratch);
      } else {
        replace_all(text, step.pattern, step.content);
      }
      break;
    case DecoderKind::Strip:
      strip(text, step);
      break;
  }
}

}  // namespace

std::vector<std::string> decoded_tokens(const Spec& spec, const Vocabulary& vocabulary) {
  std::vector<std::optional<Regex>> regexes;
  for (const DecoderStep& step : spec.decoders) {
    regexes.push_back(step.is_regex ? std::optional<Regex>(step.pattern) : std::nullopt);
  }
  std::unordered_set<TokenId> added;
  for (const AddedToken& token : spec.added_tokens)
    added.insert(token.id);
  RegexScratch scratch;
  std::vector<std::string> out(vocabulary.size());
  for (std::size_t i = 0; i < vocabulary.size(); ++i) {
    const auto id = static_cast<TokenId>(i);
    if (vocabulary.type(id) == formats::TokenType::Unused) continue;
    std::string text = vocabulary.token(id);
    const bool is_added = added.contains(id);
    for (std::size_t step = 0; step < spec.decoders.size(); ++step)
      decode(spec.decoders[step], regexes[step], is_added, scratch, text);
    out[i] = spec.separator + text;
  }
  return out;
}

}  // namespace graft::tokenizer
