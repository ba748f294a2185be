// Merges the symbols of one word pair by pair, the lowest rank first, the leftmost of equal ranks
// first. A long word is merged in windows with the same result: each cut is verified before it is
// used (proof in bpe_merge.cpp). Time is linear in the length of the word while merges depend on
// nearby symbols, n log n in the worst case.

#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "graft/tokenizer/model/pair_table.h"
#include "graft/tokenizer/spec/spec.h"

namespace graft::tokenizer {

// A token and the number of symbols merged into it.
struct MergedToken {
  TokenId id;
  std::uint32_t num_symbols;
};

// Buffers that the calls of one thread reuse.
struct MergeScratch {
  std::vector<MergedToken> merged;  // the accepted tokens of the word
  std::vector<MergedToken> window;  // the tokens of the current window
  std::vector<MergedToken> pair;    // the two tokens at a cut

  // For long windows only. A symbol with its links, in one place because they are used together.
  struct Symbol {
    TokenId id;          // -1: merged into its left neighbour
    std::uint32_t rank;  // of the pair that begins here
    std::uint32_t next;  // position; so is `previous`
    std::uint32_t previous;
  };
  // The positions whose pair has this rank, to be merged in ascending order: most are added in
  // order, the few others go to a min-heap.
  struct Queue {
    std::uint32_t rank = 0;
    std::size_t head = 0;
    std::vector<std::uint32_t> positions;
    std::vector<std::uint32_t> out_of_order;
  };
  std::vector<Symbol> symbols;
  std::vector<Queue> queues;
  std::vector<std::uint32_t> free_queues;
  std::vector<std::uint32_t> queue_of_rank;
  std::vector<std::uint64_t> heap;  // (rank, queue), smallest first
};

// Replaces the symbols in `ids` by tokens. All ranks in `pairs` are below `num_ranks`.
void merge_symbols(const PairTable& pairs,
                   std::uint32_t num_ranks,
                   MergeScratch& scratch,
                   std::vector<TokenId>& ids);

}  // namespace graft::tokenizer
