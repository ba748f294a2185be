// Merging the symbols of one word pair by pair, the best pair first, the leftmost of equal ones
// first. A long word is merged window by window, which changes nothing in the result: each cut is
// proved right before what follows it counts (see bpe_merge.cpp). Time is linear in the length of
// the word as long as merges depend on what stands near them, n log n at worst.

#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "graft/tokenizer/model/pair_table.h"
#include "graft/tokenizer/spec/spec.h"

namespace graft::tokenizer {

// A token that symbols were merged into.
struct MergedToken {
  TokenId id;
  std::uint32_t num_symbols;
};

// What the calls of one thread reuse.
struct MergeScratch {
  std::vector<MergedToken> done;    // the tokens of a long word so far
  std::vector<MergedToken> window;  // and those of the window that follows
  std::vector<MergedToken> pair;

  // For long windows only. A symbol with its neighbours, together in memory as they are used.
  struct Symbol {
    TokenId id;          // -1: merged away
    std::uint32_t rank;  // of the pair that begins here
    std::uint32_t next;  // positions
    std::uint32_t previous;
  };
  // The positions whose pair has this rank, in the order in which they must be merged: those that
  // came in order, and a heap of the few that did not.
  struct Queue {
    std::uint32_t rank = 0;
    std::size_t head = 0;
    std::vector<std::uint32_t> positions;
    std::vector<std::uint32_t> late;
  };
  std::vector<Symbol> symbols;
  std::vector<Queue> queues;
  std::vector<std::uint32_t> free_queues;
  std::vector<std::uint32_t> queue_of_rank;
  std::vector<std::uint64_t> heap;  // (rank, queue), smallest first
};

// `ids` are symbols before and tokens after it. All ranks in `pairs` are below `num_ranks`.
void merge_symbols(const PairTable& pairs,
                   std::uint32_t num_ranks,
                   MergeScratch& scratch,
                   std::vector<TokenId>& ids);

}  // namespace graft::tokenizer
