#include "graft/testing/parity/batch.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include "graft/base/check.h"
#include "graft/testing/ops.h"
#include "graft/testing/shared_data.h"

namespace graft::ops::testing {
namespace {

// Batches of at most this many rows are decode only; larger ones are prompts, then single tokens.
constexpr std::int64_t kMaxDecodeRows = 8;
constexpr std::int64_t kSinglesBesidePrompts = 3;
// Cached tokens of the decode sequences: none, within a block, full blocks, several blocks.
constexpr std::array<std::int64_t, kMaxDecodeRows> kHistories = {40, 0, 7, 70, 15, 16, 31, 3};
// Cached tokens of the second prompt, which is a later prefill chunk.
constexpr std::int64_t kChunkHistory = 20;

// The blocks of the sequences are interleaved. The first sequence has block 0, which padding also
// refers to.
std::vector<std::int32_t> block_table(std::int64_t sequence, std::int64_t num_tokens) {
  std::vector<std::int32_t> blocks;
  for (std::int64_t i = 0; i * kParityBlockTokens < num_tokens; ++i)
    blocks.push_back(static_cast<std::int32_t>(i * kParitySequences + sequence));
  return blocks;
}

// Tokens [first, first + count) of a sequence.
void append(Batch& batch, std::int64_t sequence, std::int64_t first, std::int64_t count) {
  if (count == 0) return;
  GRAFT_CHECK(sequence < kParitySequences && (first + count) <= 8 * kParityBlockTokens, sequence);
  batch.sequences.push_back({.first_row = batch.num_tokens(),
                             .num_tokens = count,
                             .context_len = first + count,
                             .block_table = block_table(sequence, first + count),
                             .state_slot = static_cast<std::int32_t>(sequence)});
  // Another slot gets the states after a part of a prompt, or after the token of a decode pass.
  batch.sequences.back().checkpoints = {
      {.num_tokens = (count + 1) / 2,
       .slot = static_cast<std::int32_t>(kParitySequences + sequence)}};
  for (std::int64_t i = first; i < first + count; ++i) {
    batch.token_ids.push_back(static_cast<std::int32_t>((13 * sequence + 7 * i) % kParityVocab));
    batch.positions.push_back(static_cast<std::int32_t>(i));
  }
}

void append_single(ParityBatch& to, std::int64_t sequence) {
  const std::int64_t history = kHistories[static_cast<std::size_t>(sequence) % kHistories.size()];
  append(to.history, sequence, 0, history);
  append(to.batch, sequence, history, 1);
}

ParityBatch batch_of(std::int64_t rows) {
  ParityBatch made;
  made.name = str(rows, " rows");
  std::int64_t sequence = 0;
  if (rows > kMaxDecodeRows) {
    const std::int64_t prompt_rows = rows - kSinglesBesidePrompts;
    append(made.batch, sequence++, 0, prompt_rows - prompt_rows / 3);
    append(made.history, sequence, 0, kChunkHistory);
    append(made.batch, sequence++, kChunkHistory, prompt_rows / 3);
  } else {
    made.phase = Phase::Decode;
  }
  while (made.batch.num_tokens() < rows)
    append_single(made, sequence++);
  return made;
}

// Padding must not write keys and values: it refers to the block of the first sequence.
ParityBatch padded_batch() {
  ParityBatch made = batch_of(6);
  made.name = "6 rows and 2 of padding";
  made.batch.num_padding = 2;
  for (int i = 0; i < 2; ++i)
    append(made.batch, 0, 0, 1);
  return made;
}

}  // namespace

const std::vector<ParityBatch>& parity_batches() {
  static const std::vector<ParityBatch> batches = [] {
    std::vector<ParityBatch> made;
    // Sanitizers look for wrong accesses, which these find; the release compares every size.
    const std::vector<std::int64_t> sizes =
        kUnderSanitizers ? std::vector<std::int64_t>{0, 1, 9, 33}
                         : std::vector<std::int64_t>{0, 1, 2, 8, 9, 17, 33, 96};
    for (const std::int64_t rows : sizes)
      made.push_back(batch_of(rows));
    made.push_back(padded_batch());
    return made;
  }();
  return batches;
}

}  // namespace graft::ops::testing
