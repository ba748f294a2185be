// Softmax attention of query rows over the positions of their sequence. Scores are taken in blocks
// of positions that begin at multiples of 64, with a running maximum (online softmax). Every
// segment of 256 positions starts afresh, and segments are joined in ascending order: so they can
// be given to different threads, and still the order of every sum follows from the position of the
// query, never from the batch, the chunk or the threads.

#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "graft/kernels/cpu/math.h"
#include "graft/ops/pass.h"

namespace graft::ops::cpu {

// Wide enough for the tiles of the matrix product, small enough that keys and values of a block
// (64 x 2 x 128 floats) stay in the second-level cache.
inline constexpr std::int64_t kAttentionBlock = 64;
// Positions of a segment: long enough that joining costs under 2 %, short enough that one sequence
// of a few thousand tokens is work for all cores.
inline constexpr std::int64_t kAttentionSegment = 256;
// Query rows that go through the products together: three vectors of 16, which with eight keys or
// dimensions fill the registers.
inline constexpr std::int64_t kAttentionRows = 48;

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
struct HeadTile {
  TokenTile tokens;
  std::int64_t source = 0;         // which of the keys and values, as the KeyValueSource counts
  const float* queries = nullptr;  // of the tile's first token
  std::int64_t query_stride = 0;   // floats from one token to the next
  float* out = nullptr;
  std::int64_t out_stride = 0;
  std::int64_t num_heads = 0;

  std::int64_t num_rows() const { return tokens.num_tokens * num_heads; }
};

struct KeysAndValues {
  kernels::cpu::RowsF32 keys;    // [n, key_dim]
  kernels::cpu::RowsF32 values;  // [n, value_dim]
};

// Positions [begin, end), at most kAttentionBlock; `follow` more will be asked for next.
struct Positions {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t follow = 0;
};

// Where keys and values come from. Has no state of its own: workers bring their memory.
class KeyValueSource {
 public:
  KeyValueSource() = default;
  KeyValueSource(const KeyValueSource&) = delete;
  KeyValueSource& operator=(const KeyValueSource&) = delete;
  virtual ~KeyValueSource() = default;

  // Floats of memory that load() needs.
  virtual std::int64_t memory_elems() const = 0;
  // Before the first load() for a tile.
  virtual void prepare(const HeadTile& /*tile*/, float* /*memory*/) const {}
  // Good until the next call with that memory.
  virtual KeysAndValues load(const HeadTile& tile, Positions positions, float* memory) const = 0;
};

// Every tile by one worker or, where tiles are few, every segment of a tile by one. `bundle`
// successive tiles, which have the same tokens, may go through the cache side by side: its rows
// hold all heads, and a row is read best as a whole. Not for sources that prepare().
void attend(const AttentionShape& shape,
            std::span<const HeadTile> tiles,
            std::int64_t bundle,
            const KeyValueSource& source,
            Pass& pass);

}  // namespace graft::ops::cpu
