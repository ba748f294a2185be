// The structured output of one sequence, token by token; and the compiled grammars of a model.

#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graft/error.h"
#include "graft/grammar/matcher.h"
#include "graft/grammar/special_tokens.h"
#include "graft/grammar/token_trie.h"
#include "graft/sampling_params.h"
#include "graft/tokenizer/tokenizer.h"

namespace graft::grammar {

using graft::StructuredOutput;

// The text of a structured output is invalid or not supported.
class GrammarError : public Error {
 public:
  using Error::Error;
};

// Throws Error that says what of the text is wrong or not supported. Without `tokens`, names of
// special tokens in a grammar are text.
Automaton compile(const StructuredOutput& output, std::span<const SpecialToken> tokens = {});

// Follows the output of one sequence. Copies are cheap.
class OutputMatcher {
 public:
  OutputMatcher(Matcher matcher,
                std::vector<std::string> triggers,
                const tokenizer::Tokenizer& tokenizer);

  // False: the token is not allowed; the position stays. Bytes of the token that completes a
  // trigger belong to the constrained text if they match, otherwise it begins with the next token.
  bool accept(TokenId token);
  // Whether the constraint has begun.
  bool is_active() const { return triggers_.empty(); }
  bool can_end() const { return !is_active() || matcher_.can_end(); }
  // Whether the output matches and nothing may follow.
  bool is_complete() const;
  // The tokens that may follow, without those that end the output. Empty: all.
  TokenBits allowed() const;

 private:
  Matcher matcher_;
  std::vector<std::string> triggers_;  // empty: the constraint has begun
  std::string tail_;                   // of the text before it, as long as a trigger may be
  const tokenizer::Tokenizer* tokenizer_;
};

// Compiles structured outputs for a tokenizer and keeps the last ones. Thread-safe.
class GrammarCache {
 public:
  static constexpr std::size_t kMaxGrammars = 16;
  static constexpr std::size_t kMaxTextBytes = std::size_t{1} << 20U;

  // The tokenizer must outlive the cache and its matchers. Tokens from vocab_size on are never
  // allowed. `ends`: the tokens that end the output.
  GrammarCache(const tokenizer::Tokenizer& tokenizer,
               std::int64_t vocab_size,
               std::vector<TokenId> ends);

  // Throws GrammarError when the text is invalid or the vocabulary cannot write any match.
  OutputMatcher matcher(const StructuredOutput& output);

 private:
  struct Entry {
    StructuredOutput output;  // without triggers
    std::shared_ptr<Constraint> constraint;
  };
  OutputMatcher new_matcher(const StructuredOutput& output);
  std::shared_ptr<Constraint> find(const StructuredOutput& key);
  struct Vocabulary {
    TokenTrie trie;
    std::vector<SpecialToken> special;
  };
  std::shared_ptr<const Vocabulary> vocabulary();

  const tokenizer::Tokenizer& tokenizer_;
  std::int64_t vocab_size_;
  std::vector<TokenId> ends_;
  std::mutex mutex_;
  std::mutex vocabulary_mutex_;  // its own: building takes long
  std::shared_ptr<const Vocabulary> vocabulary_;
  std::list<Entry> entries_;  // the last used first
};

}  // namespace graft::grammar
