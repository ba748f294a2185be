// Matches a text against a grammar byte by byte, and finds the tokens that may follow.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "graft/grammar/automaton.h"
#include "graft/grammar/state_sets.h"
#include "graft/grammar/token_trie.h"

namespace graft::grammar {

// Token t is bit t % 32 of word t / 32.
using TokenBits = std::vector<std::uint32_t>;

// A compiled grammar with the states and masks that its matchers reached, which they share.
// Thread-safe.
class Constraint {
 public:
  // Beyond this, the states and masks are computed again.
  static constexpr std::size_t kMaxCacheBytes = std::size_t{16} << 20U;

  Constraint(Automaton automaton, std::shared_ptr<const TokenTrie> trie);

 private:
  friend class Matcher;

  // A mask takes a list of tokens where there are few.
  struct Mask {
    std::vector<TokenId> tokens = {};
    TokenBits bits = {};  // empty: see tokens
  };
  struct Cache {
    explicit Cache(const Automaton& automaton) : sets(automaton) {}

    StateSets sets;
    std::unordered_map<SetId, Mask> masks;
    std::size_t mask_bytes = 0;
  };

  const Mask& mask_of(Cache& cache, SetId set);
  Mask walk(Cache& cache, SetId set) const;
  // The cache to use next: `cache`, or a new one when it is full.
  std::shared_ptr<Cache> next_cache(const std::shared_ptr<Cache>& cache);

  Automaton automaton_;
  std::shared_ptr<const TokenTrie> trie_;
  std::mutex mutex_;  // of all caches
  std::shared_ptr<Cache> cache_;
};

// A position in a text. Copies are cheap.
class Matcher {
 public:
  // Throws Error when the grammar is too ambiguous.
  explicit Matcher(std::shared_ptr<Constraint> constraint);

  // False: the text cannot continue so; the position stays.
  bool accept(std::string_view bytes);
  bool can_end() const;
  bool can_continue() const;
  // The tokens that may follow, without those that end the text.
  TokenBits allowed() const;

 private:
  std::shared_ptr<Constraint> constraint_;
  std::shared_ptr<Constraint::Cache> cache_;
  SetId set_ = 0;
};

}  // namespace graft::grammar
