// The batches that every operator is run with: no rows, few, and many, of prompts and of single
// tokens, some of which continue sequences of earlier passes.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graft/ops/pass.h"

namespace graft::ops::testing {

// Token ids of the batches are below it.
inline constexpr std::int64_t kParityVocab = 64;
// Tokens per block of the KV caches, and the blocks that the batches refer to.
inline constexpr std::int64_t kParityBlockTokens = 16;
inline constexpr std::int64_t kParitySequences = 12;
inline constexpr std::int64_t kParityBlocks = 8 * kParitySequences;

struct ParityBatch {
  std::string name;
  Batch history;  // what the sequences had before, all prompts; may be empty
  Batch batch;
  Phase phase = Phase::Prefill;

  // Results of the padding rows behind them are undefined.
  std::int64_t kept_rows() const { return batch.num_tokens() - batch.num_padding; }
};

// One batch of each of 0, 1, 2, 8, 9, 17, 33 and 96 rows, and one of 6 rows and 2 of padding.
const std::vector<ParityBatch>& parity_batches();

}  // namespace graft::ops::testing
