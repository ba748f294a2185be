// Byte-pair encoding of one word: its symbols (bytes or characters) are merged pair by pair, the
// best pair first, the leftmost of equal ones first. Time is linear in the length of the word.

#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "graft/tokenizer/pair_table.h"
#include "graft/tokenizer/spec.h"
#include "graft/tokenizer/vocabulary.h"

namespace graft::tokenizer {

// What the calls of one thread reuse.
struct BpeScratch {
  // The positions whose pair has this rank, in the order in which they must be merged.
  struct Queue {
    std::uint32_t rank = 0;
    bool is_sorted = true;
    std::size_t head = 0;
    std::vector<std::uint32_t> positions;
  };

  std::vector<TokenId> ids;          // the symbols of the word, -1 for those merged away
  std::vector<std::uint32_t> ranks;  // of the pair that begins here
  // For long words only:
  std::vector<std::uint32_t> next;  // positions of the neighbours
  std::vector<std::uint32_t> previous;
  std::vector<Queue> queues;
  std::vector<std::uint32_t> free_queues;
  std::vector<std::uint32_t> queue_of_rank;
  std::vector<std::uint64_t> heap;  // (rank, queue), smallest first
};

class Bpe {
 public:
  // Throws Error that names the entry when a merge names a token that is not there.
  Bpe(const ModelSpec& spec, const Vocabulary& vocabulary);

  void encode(std::string_view word, BpeScratch& scratch, std::vector<TokenId>& out) const;

  // No merge reaches over the begin of a ▁ that follows something else: a text that was not split
  // into words may be cut there.
  bool may_cut_at_spaces() const { return may_cut_at_spaces_; }

 private:
  TokenId symbol_of(std::string_view character) const;
  void add_merges(const ModelSpec& spec, const Vocabulary& vocabulary);
  void add_merges_by_score(const ModelSpec& spec, const Vocabulary& vocabulary);
  void take_symbols(std::string_view word, std::vector<TokenId>& ids) const;
  bool take_as_bytes(std::string_view character, std::vector<TokenId>& ids) const;
  void merge_short(BpeScratch& scratch) const;
  void merge_long(BpeScratch& scratch) const;

  bool byte_level_;
  bool byte_fallback_;
  bool fuse_unk_;
  bool ignore_merges_;
  bool has_all_bytes_ = true;
  bool may_cut_at_spaces_;
  TokenId unk_id_;              // -1: none
  std::vector<TokenId> bytes_;  // ids of single bytes, -1 for none
  std::array<TokenId, 128> ascii_{};
  std::unordered_map<std::string, TokenId> characters_;  // that are tokens, the others
  std::unordered_map<std::string, TokenId> words_;       // all tokens, when merges may be ignored
  std::uint32_t num_ranks_ = 0;
  PairTable pairs_{0};
};

}  // namespace graft::tokenizer
