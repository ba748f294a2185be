#include "graft/tokenizer/model/word_piece.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

namespace graft::tokenizer {
namespace {

ByteTrie trie_of_plain(const Vocabulary& vocabulary) {
  std::vector<std::pair<std::string_view, std::int32_t>> entries;
  for (std::size_t i = 0; i < vocabulary.size(); ++i) {
    const auto id = static_cast<TokenId>(i);
    if (vocabulary.is_plain(id)) entries.emplace_back(vocabulary.token(id), id);
  }
  return ByteTrie(std::move(entries));
}

}  // namespace

WordPiece::WordPiece(const ModelSpec& spec, const Vocabulary& vocabulary)
    : unk_id_(spec.unk_id.value_or(-1)), trie_(trie_of_plain(vocabulary)) {}

void WordPiece::encode(std::string_view word, std::vector<TokenId>& out) const {
  const std::size_t first = out.size();
  const std::string marked = std::string(kSpaceMarker).append(word);
  std::string_view rest = marked;
  while (!rest.empty()) {
    std::size_t longest = 0;
    TokenId token = -1;
    trie_.prefixes(rest, [&](std::size_t length, TokenId id) {
      longest = length;
      token = id;
    });
    if (longest == 0) {
      out.resize(first);
      if (unk_id_ >= 0) out.push_back(unk_id_);
      return;
    }
    out.push_back(token);
    rest.remove_prefix(longest);
  }
}

}  // namespace graft::tokenizer
