// Softmax attention of query rows over the positions of their sequence: online softmax over blocks
// of 64 positions. The KV cache is cut into splits of 256 positions, each with its own softmax
// state (max, sum, output), and the states are merged in ascending order. Threads can therefore
// compute the splits in parallel, while the order of every sum depends on the query's position
// alone, not on the batch, the prefill chunk or the number of threads.
//
//   position     0        64       128      192      256      320 ...
//   block        |--------|--------|--------|--------|--------|--------
//   KV split     |---------------- 0 ----------------|------- 1 -------

#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "graft/kernels/cpu/math.h"
#include "graft/ops/cpu/attention/stored_cache.h"
#include "graft/ops/pass.h"

namespace graft::ops::cpu {

// Wide enough for the tiles of the matrix product, small enough that keys and values of a block
// (64 x 2 x 128 floats) stay in the L2 cache.
inline constexpr std::int64_t kAttentionBlock = 64;
// Positions per KV split: long enough that merging costs under 2 %, short enough that one sequence
// of a few thousand tokens occupies all cores.
inline constexpr std::int64_t kAttentionSplit = 256;
// Max query rows per matrix product: three vectors of 16 floats, which fill the registers together
// with eight keys or dimensions.
inline constexpr std::int64_t kAttentionRows = 48;

struct AttentionShape {
  std::int64_t key_dim = 0;
  std::int64_t value_dim = 0;
  float scale = 1.0F;
  std::int64_t window = 0;  // sliding window in tokens, the query's own included; 0: none
  std::int64_t chunk = 0;   // a query sees its own chunk of this many positions; 0: all
};

// Tokens of one sequence, at consecutive positions and rows of the pass.
struct TokenTile {
  const SequenceSlice* sequence = nullptr;
  std::int64_t first_row = 0;
  std::int64_t first_position = 0;
  std::int64_t num_tokens = 0;
};

// The rows [first_row, first_row + num_rows) of a pass in tiles of at most `max_tokens` tokens of
// one sequence.
std::vector<TokenTile> token_tiles(const Batch& batch,
                                   std::int64_t first_row,
                                   std::int64_t num_rows,
                                   std::int64_t max_tokens);

// Query heads of a tile's tokens that attend to the same keys: queries [num_tokens, num_heads,
// key_dim], out [num_tokens, num_heads, value_dim].
struct HeadTile {
  TokenTile tokens;
  std::int64_t source = 0;         // index of the KV head in the KeyValueSource
  const float* queries = nullptr;  // of the tile's first token
  std::int64_t query_stride = 0;   // in floats, from one token to the next
  float* out = nullptr;
  std::int64_t out_stride = 0;
  std::int64_t num_heads = 0;
  const float* sinks = nullptr;  // [num_heads] logits of the attention sinks; null: none
  // The positions that the tile's only token attends to, ascending; its first_position is then the
  // index of the last one. Null: all positions up to the token's own.
  const std::int32_t* selected = nullptr;

  std::int64_t num_rows() const { return tokens.num_tokens * num_heads; }
};

struct KeysAndValues {
  kernels::cpu::RowsF32 keys;    // [n, key_dim]
  kernels::cpu::RowsF32 values;  // [n, value_dim]
};

// Positions [begin, end), at most kAttentionBlock. The next load reads `follow` more, for prefetch.
struct Positions {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t follow = 0;
};

// Loads keys and values as f32. Stateless: every worker passes its own memory.
class KeyValueSource {
 public:
  KeyValueSource() = default;
  KeyValueSource(const KeyValueSource&) = delete;
  KeyValueSource& operator=(const KeyValueSource&) = delete;
  virtual ~KeyValueSource() = default;

  // Floats of memory that prepare() and load() need.
  virtual std::int64_t memory_elems() const = 0;
  // The cache that tiles of few rows may read as stored instead of load(), with the same bits.
  // Source i is then head i of its keys and values. Null: none.
  virtual const StoredCache* stored() const { return nullptr; }
  // Called before the first load() of a tile.
  virtual void prepare(const HeadTile& /*tile*/, float* /*memory*/) const {}
  // The result is valid until the next call with the same memory.
  virtual KeysAndValues load(const HeadTile& tile, Positions positions, float* memory) const = 0;
};

// One work item per tile or, when there are few tiles, per KV split of a tile. `tiles_per_group`
// consecutive tiles with the same tokens form a head group, which one worker may compute block by
// block together: a cache row holds all heads, and reading whole rows is fastest. Must be 1 for
// sources that override prepare().
void attend(const AttentionShape& shape,
            std::span<const HeadTile> tiles,
            std::int64_t tiles_per_group,
            const KeyValueSource& source,
            Pass& pass);

}  // namespace graft::ops::cpu
