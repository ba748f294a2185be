#include "graft/tokenizer/special_texts.h"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace graft::tokenizer {
namespace {

// U+FDD0, a noncharacter. In the text itself it is doubled.
constexpr std::string_view kMark = "\xef\xb7\x90";

std::vector<std::string> special_texts(const Tokenizer& tokenizer,
                                       std::vector<std::string> further) {
  std::vector<std::string> texts;
  const auto num_tokens = static_cast<TokenId>(tokenizer.vocab_size());
  for (TokenId id = 0; id < num_tokens; ++id) {
    if (tokenizer.is_special(id)) texts.emplace_back(tokenizer.token(id));
  }
  for (std::string& text : further) {
    if (std::ranges::find(texts, text) == texts.end()) texts.push_back(std::move(text));
  }
  return texts;
}

ByteTrie trie_of_texts(const std::vector<std::string>& texts) {
  std::vector<std::pair<std::string_view, std::int32_t>> entries;
  for (std::size_t i = 0; i < texts.size(); ++i)
    entries.emplace_back(texts[i], static_cast<std::int32_t>(i));
  entries.emplace_back(kMark, static_cast<std::int32_t>(texts.size()));
  return ByteTrie(std::move(entries));
}

// Bytes of the first UTF-8 character.
std::size_t first_size(std::string_view text) {
  std::size_t size = 1;
  while (size < text.size() && (static_cast<unsigned char>(text[size]) & 0xc0U) == 0x80U)
    ++size;
  return size;
}

}  // namespace

UnmarkedText unmark(std::string_view text) {
  UnmarkedText out;
  while (!text.empty()) {
    const std::size_t at = std::min(text.find(kMark), text.size());
    out.text += text.substr(0, at);
    text.remove_prefix(at);
    if (text.empty()) break;
    text.remove_prefix(kMark.size());
    if (text.starts_with(kMark)) {
      out.text += kMark;
      text.remove_prefix(kMark.size());
    } else {
      out.cuts.push_back(out.text.size());
    }
  }
  return out;
}

SpecialTexts::SpecialTexts(const Tokenizer& tokenizer, std::vector<std::string> further)
    : tokenizer_(&tokenizer),
      texts_(special_texts(tokenizer, std::move(further))),
      trie_(trie_of_texts(texts_)) {
  const std::optional<TokenId> eos = tokenizer.eos();
  if (!eos) return;
  const std::string text(tokenizer.token(*eos));
  if (tokenizer.encode(text, {.add_special = false}) == std::vector<TokenId>{*eos})
    boundary_ = text;
}

std::string SpecialTexts::marked(std::string_view text,
                                 std::span<const std::string_view> allowed) const {
  std::string out;
  std::size_t begin = 0;  // of what is not in `out` yet
  for (std::size_t at = 0; at < text.size();) {
    std::size_t length = 0;
    if (trie_.begins(text[at]))
      trie_.prefixes(text.substr(at), [&](std::size_t size, std::int32_t) { length = size; });
    const std::string_view found = text.substr(at, length);
    if (length == 0 || std::ranges::find(allowed, found) != allowed.end()) {
      at += std::max<std::size_t>(length, 1);
      continue;
    }
    const std::size_t cut = at + first_size(found);
    out += text.substr(begin, cut - begin);
    out += kMark;
    begin = cut;
    at += length;
  }
  out += text.substr(begin);
  return out;
}

std::vector<TokenId> SpecialTexts::encode(std::string_view text,
                                          std::span<const std::size_t> cuts,
                                          bool is_first) const {
  std::vector<TokenId> tokens;
  std::size_t begin = 0;
  for (std::size_t i = 0; i <= cuts.size(); ++i) {
    const std::size_t end = i < cuts.size() ? cuts[i] : text.size();
    const std::string_view piece = text.substr(begin, end - begin);
    const bool has_boundary = (begin > 0 || !is_first) && !boundary_.empty();
    const std::vector<TokenId> part = tokenizer_->encode(
        (has_boundary ? boundary_ : "") + std::string(piece), {.add_special = false});
    tokens.insert(tokens.end(), part.begin() + (has_boundary ? 1 : 0), part.end());
    begin = end;
  }
  return tokens;
}

}  // namespace graft::tokenizer
