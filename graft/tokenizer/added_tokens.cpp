#include "graft/tokenizer/added_tokens.h"

#include <cstdint>
#include <utility>

#include "graft/tokenizer/steps/unicode.h"

namespace graft::tokenizer {
namespace {

std::uint8_t byte_at(std::string_view text, std::size_t i) {
  return static_cast<std::uint8_t>(text[i]);
}

// The last character before `end`; a single byte if it is invalid UTF-8.
Character character_before(std::string_view text, std::size_t end) {
  std::size_t begin = end - 1;
  while (begin > 0 && end - begin < 4 && (byte_at(text, begin) >> 6U) == 2)
    --begin;
  const Character c = first_character(text.substr(begin, end - begin));
  return c.bytes == end - begin ? c : Character{-1, 1};
}

bool is_separate_word(std::string_view text, std::size_t begin, std::size_t end) {
  if (begin > 0 && is_word_character(character_before(text, begin).code)) return false;
  return end == text.size() || !is_word_character(first_character(text.substr(end)).code);
}

ByteTrie trie_of(const std::vector<AddedToken>& tokens) {
  std::vector<std::pair<std::string_view, std::int32_t>> entries;
  for (std::size_t i = 0; i < tokens.size(); ++i)
    entries.emplace_back(tokens[i].content, static_cast<std::int32_t>(i));
  return ByteTrie(std::move(entries));
}

}  // namespace

AddedTokens::AddedTokens(std::vector<AddedToken> tokens)
    : tokens_(std::move(tokens)), trie_(trie_of(tokens_)) {}

std::optional<AddedTokens::Match> AddedTokens::find(std::string_view text,
                                                    std::size_t from,
                                                    std::size_t consumed,
                                                    bool with_special) const {
  if (tokens_.empty()) return std::nullopt;
  for (std::size_t at = from; at < text.size();) {
    if (!trie_.begins(text[at])) {
      ++at;
      continue;
    }
    std::int32_t idx = -1;
    trie_.prefixes(text.substr(at), [&](std::size_t, std::int32_t value) { idx = value; });
    if (idx < 0) {
      ++at;
      continue;
    }
    const AddedToken& token = tokens_[static_cast<std::size_t>(idx)];
    std::size_t begin = at;
    std::size_t end = at + token.content.size();
    at = end;  // a match that is skipped still hides the tokens inside it
    if (token.is_special && !with_special) continue;
    if (token.single_word && !is_separate_word(text, begin, end)) continue;
    while (token.lstrip && begin > consumed) {
      const Character c = character_before(text, begin);
      if (!is_whitespace(c.code)) break;
      begin -= c.bytes;
    }
    while (token.rstrip && end < text.size()) {
      const Character c = first_character(text.substr(end));
      if (!is_whitespace(c.code)) break;
      end += c.bytes;
    }
    return Match{begin, end, at, token.id};
  }
  return std::nullopt;
}

}  // namespace graft::tokenizer
