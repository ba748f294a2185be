// Softmax attention of a few query rows over the positions of their sequence. Scores are taken in
// blocks of positions that begin at multiples of 64, with a running maximum (online softmax): the
// order of every sum follows from the position of the query, never from the batch or the chunk.

#pragma once

#include <cstdint>
#include <vector>

#include "graft/kernels/cpu/math.h"
#include "graft/ops/pass.h"

namespace graft::ops {

// Wide enough for the tiles of the matrix product, small enough that keys and values of a block
// (64 x 2 x 128 floats) stay in the second-level cache.
inline constexpr std::int64_t kAttentionBlock = 64;

struct AttentionShape {
  std::int64_t key_dim = 0;
  std::int64_t value_dim = 0;
  float scale = 1.0F;
  std::int64_t window = 0;  // 0: none; else a token sees this many, itself included
};

// Tokens of one sequence, at successive positions and rows of the pass.
struct TokenTile {
  const SequenceSlice* sequence = nullptr;
  std::int64_t first_row = 0;
  std::int64_t first_position = 0;
  std::int64_t num_tokens = 0;
};

// The rows [first_row, first_row + num_rows) of a pass, at most `max_tokens` of a sequence at a
// time.
std::vector<TokenTile> token_tiles(const Batch& batch,
                                   std::int64_t first_row,
                                   std::int64_t num_rows,
                                   std::int64_t max_tokens);

// Heads of a tile's tokens that attend to the same keys: `num_heads` rows of key_dim floats per
// token, and value_dim floats per head where the results go.
struct HeadsOfTile {
  const float* queries = nullptr;  // of the tile's first token
  std::int64_t query_stride = 0;   // floats from one token to the next
  float* out = nullptr;
  std::int64_t out_stride = 0;
  std::int64_t num_heads = 0;
};

struct KeysAndValues {
  cpu::RowsF32 keys;    // [n, key_dim]
  cpu::RowsF32 values;  // [n, value_dim]
};

class KeyValueSource {
 public:
  KeyValueSource() = default;
  KeyValueSource(const KeyValueSource&) = delete;
  KeyValueSource& operator=(const KeyValueSource&) = delete;
  virtual ~KeyValueSource() = default;

  // Positions [begin, end), at most kAttentionBlock. Good until the next call.
  virtual KeysAndValues load(std::int64_t begin, std::int64_t end) = 0;
};

// Floats of scratch that attend() needs for that many rows (tokens times heads).
std::int64_t attend_scratch_elems(const AttentionShape& shape, std::int64_t num_rows);

void attend(const AttentionShape& shape,
            const TokenTile& tile,
            const HeadsOfTile& heads,
            KeyValueSource& source,
            float* scratch);

}  // namespace graft::ops
