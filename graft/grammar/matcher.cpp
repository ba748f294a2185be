#include "graft/grammar/matcher.h"

#include <utility>

#include "graft/base/error.h"

namespace graft::grammar {
namespace {

std::size_t num_words(const TokenTrie& trie) {
  return (trie.vocab_size() + 31) / 32;
}

void set_bit(TokenBits& bits, TokenId token) {
  const auto at = static_cast<std::uint32_t>(token);
  bits[at / 32] |= std::uint32_t{1} << at % 32;
}

}  // namespace

Constraint::Constraint(Automaton automaton, std::shared_ptr<const TokenTrie> trie)
    : automaton_(std::move(automaton)),
      trie_(std::move(trie)),
      cache_(std::make_shared<Cache>(automaton_)) {}

std::shared_ptr<Constraint::Cache> Constraint::next_cache(const std::shared_ptr<Cache>& cache) {
  if (cache_->sets.num_bytes() + cache_->mask_bytes > kMaxCacheBytes)
    cache_ = std::make_shared<Cache>(automaton_);
  return cache == nullptr || cache->sets.num_bytes() + cache->mask_bytes > kMaxCacheBytes ? cache_
                                                                                          : cache;
}

const Constraint::Mask& Constraint::mask_of(Cache& cache, SetId set) {
  const auto found = cache.masks.find(set);
  if (found != cache.masks.end()) return found->second;
  Mask mask = walk(cache, set);
  cache.mask_bytes += sizeof(Mask) + mask.tokens.size() * sizeof(TokenId) +
                      mask.bits.size() * sizeof(std::uint32_t);
  return cache.masks.emplace(set, std::move(mask)).first->second;
}

// Trie and automaton together: a node whose byte is rejected is skipped with all below it.
Constraint::Mask Constraint::walk(Cache& cache, SetId set) const {
  Mask mask;
  std::vector<SetId> sets(trie_->max_depth() + 1, set);  // by depth
  const auto nodes = trie_->nodes();
  for (std::size_t i = 0; i < nodes.size();) {
    const TokenTrie::Node& node = nodes[i];
    const SetId next = cache.sets.step(sets[node.depth - 1], node.byte);
    if (next == StateSets::kDead) {
      i = node.end;
      continue;
    }
    sets[node.depth] = next;
    for (const TokenId token : trie_->tokens_of(i))
      mask.tokens.push_back(token);
    ++i;
  }
  if (mask.tokens.size() < num_words(*trie_)) return mask;
  mask.bits.resize(num_words(*trie_));
  for (const TokenId token : mask.tokens)
    set_bit(mask.bits, token);
  mask.tokens = {};
  return mask;
}

Matcher::Matcher(std::shared_ptr<Constraint> constraint) : constraint_(std::move(constraint)) {
  const std::lock_guard lock(constraint_->mutex_);
  cache_ = constraint_->next_cache(nullptr);
  set_ = cache_->sets.start();
  if (set_ == StateSets::kDead)
    fail("too large: more than ", StateSets::kMaxSetSize, " ways to begin a text");
}

bool Matcher::accept(std::string_view bytes) {
  const std::lock_guard lock(constraint_->mutex_);
  const std::shared_ptr<Constraint::Cache> cache = constraint_->next_cache(cache_);
  if (cache != cache_) {
    set_ = cache->sets.import(cache_->sets, set_);
    cache_ = cache;
  }
  SetId set = set_;
  for (const char c : bytes) {
    set = cache_->sets.step(set, static_cast<std::uint8_t>(c));
    if (set == StateSets::kDead) return false;
  }
  set_ = set;
  return true;
}

bool Matcher::can_end() const {
  const std::lock_guard lock(constraint_->mutex_);
  return cache_->sets.can_end(set_);
}

bool Matcher::can_continue() const {
  const std::lock_guard lock(constraint_->mutex_);
  return cache_->sets.can_continue(set_);
}

TokenBits Matcher::allowed() const {
  const std::lock_guard lock(constraint_->mutex_);
  const Constraint::Mask& mask = constraint_->mask_of(*cache_, set_);
  if (!mask.bits.empty()) return mask.bits;
  TokenBits bits(num_words(*constraint_->trie_));
  for (const TokenId token : mask.tokens)
    set_bit(bits, token);
  return bits;
}

}  // namespace graft::grammar
