#include "graft/grammar/token_trie.h"

#include <algorithm>

#include "graft/grammar/special_tokens.h"

namespace graft::grammar {

TokenTrie::TokenTrie(const tokenizer::Tokenizer& tokenizer,
                     std::int64_t vocab_size,
                     std::span<const TokenId> ends)
    : vocab_size_(static_cast<std::size_t>(vocab_size)) {
  std::vector<std::pair<std::string, TokenId>> entries;
  const auto num_tokens = static_cast<TokenId>(std::min(vocab_size, tokenizer.vocab_size()));
  for (TokenId token = 0; token < num_tokens; ++token) {
    if (std::ranges::find(ends, token) != ends.end()) continue;
    entries.emplace_back(grammar_bytes(tokenizer, token), token);
  }
  build(std::move(entries));
}

TokenTrie::TokenTrie(const std::vector<std::string>& tokens) : vocab_size_(tokens.size()) {
  std::vector<std::pair<std::string, TokenId>> entries;
  entries.reserve(tokens.size());
  for (const std::string& token : tokens)
    entries.emplace_back(token, static_cast<TokenId>(entries.size()));
  build(std::move(entries));
}

// Sorted texts are the nodes in preorder.
void TokenTrie::build(std::vector<std::pair<std::string, TokenId>> entries) {
  std::erase_if(entries, [](const auto& entry) { return entry.first.empty(); });
  std::ranges::sort(entries);
  std::vector<std::uint32_t> path;  // nodes of the last text
  std::string last;
  const auto close = [&](std::size_t depth) {
    for (; path.size() > depth; path.pop_back())
      nodes_[path.back()].end = static_cast<std::uint32_t>(nodes_.size());
  };
  for (const auto& [text, token] : entries) {
    const auto shared =
        static_cast<std::size_t>(std::ranges::mismatch(text, last).in1 - text.begin());
    close(shared);
    for (std::size_t i = shared; i < text.size(); ++i) {
      path.push_back(static_cast<std::uint32_t>(nodes_.size()));
      nodes_.push_back({.byte = static_cast<std::uint8_t>(text[i]),
                        .depth = static_cast<std::uint32_t>(i + 1),
                        .end = 0,
                        .first_token = static_cast<std::uint32_t>(tokens_.size())});
    }
    tokens_.push_back(token);
    max_depth_ = std::max(max_depth_, static_cast<std::uint32_t>(text.size()));
    last = text;
  }
  close(0);
  nodes_.push_back({.first_token = static_cast<std::uint32_t>(tokens_.size())});
}

std::span<const TokenId> TokenTrie::tokens_of(std::size_t node) const {
  const std::uint32_t begin = nodes_[node].first_token;
  return std::span(tokens_).subspan(begin, nodes_[node + 1].first_token - begin);
}

}  // namespace graft::grammar
