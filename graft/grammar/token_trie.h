// The vocabulary of a tokenizer as a trie over the bytes of its tokens, to find all tokens that a
// grammar allows in one walk. Immutable.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "graft/sampling_params.h"
#include "graft/tokenizer/tokenizer.h"

namespace graft::grammar {

class TokenTrie {
 public:
  // In preorder: the first child is the next node.
  struct Node {
    std::uint8_t byte = 0;
    std::uint32_t depth = 0;        // bytes, 1 for children of the root
    std::uint32_t end = 0;          // the node after the subtree
    std::uint32_t first_token = 0;  // of tokens(); the next node's is the end
  };

  // By grammar_bytes(), without the tokens that end the output.
  TokenTrie(const tokenizer::Tokenizer& tokenizer,
            std::int64_t vocab_size,
            std::span<const TokenId> ends);
  // Of the bytes of tokens; empty: not part of a text.
  explicit TokenTrie(const std::vector<std::string>& tokens);

  std::span<const Node> nodes() const { return std::span(nodes_).first(nodes_.size() - 1); }
  std::span<const TokenId> tokens_of(std::size_t node) const;
  std::uint32_t max_depth() const { return max_depth_; }
  std::size_t vocab_size() const { return vocab_size_; }

 private:
  void build(std::vector<std::pair<std::string, TokenId>> entries);

  std::vector<Node> nodes_;  // and one more, the end of the last tokens
  std::vector<TokenId> tokens_;
  std::uint32_t max_depth_ = 0;
  std::size_t vocab_size_ = 0;
};

}  // namespace graft::grammar
