// The batches that every operator runs: no rows, few and many, prefill and decode, with and without
// cached tokens.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graft/ops/pass.h"

namespace graft::ops::testing {

// Token ids of the batches are below this.
inline constexpr std::int64_t kParityVocab = 64;
// Tokens per block of the KV caches, and the blocks that the batches refer to.
inline constexpr std::int64_t kParityBlockTokens = 16;
inline constexpr std::int64_t kParitySequences = 12;
inline constexpr std::int64_t kParityBlocks = 8 * kParitySequences;

struct ParityBatch {
  std::string name;
  Batch history;  // a prefill that fills the cache before `batch`; may be empty
  Batch batch;
  Phase phase = Phase::Prefill;

  // Rows without padding; the results of padding rows, which are last, are undefined.
  std::int64_t kept_rows() const { return batch.num_tokens() - batch.num_padding; }
};

// One batch of each of 0, 1, 2, 8, 9, 17, 33 and 96 rows (0, 1, 9 and 33 under sanitizers), and one
// of 6 rows and 2 of padding.
const std::vector<ParityBatch>& parity_batches();

}  // namespace graft::ops::testing
