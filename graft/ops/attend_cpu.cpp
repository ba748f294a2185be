#include "graft/ops/attend_cpu.h"

#include <algorithm>
#include <limits>

#include "graft/kernels/cpu/table.h"

namespace graft::ops {
namespace {

// What a row knows after some blocks: softmax of the scores so far times their values is acc / sum.
struct RowState {
  float* max;
  float* sum;
  float* acc;  // [value_dim]
};

struct Scratch {
  float* queries;  // [rows, key_dim]
  float* scores;   // [rows, kAttentionBlock]
  float* acc;      // [rows, value_dim]
  float* max;      // [rows]
  float* sum;      // [rows]

  Scratch(const AttentionShape& shape, std::int64_t num_rows, float* memory)
      : queries(memory),
        scores(queries + num_rows * shape.key_dim),
        acc(scores + num_rows * kAttentionBlock),
        max(acc + num_rows * shape.value_dim),
        sum(max + num_rows) {}
};

// Takes in the scores of the row's visible positions in this block, and their values.
void add_block(const AttentionShape& shape, float* scores, cpu::RowsF32 values, RowState row) {
  const cpu::MathTable& math = cpu::kernels().math;
  const std::int64_t count = values.rows;
  math.scale(scores, count, shape.scale);
  const float max = std::max(*row.max, math.max(scores, count));
  const float sum = math.exp_sum(scores, count, max);
  float correction = *row.max;
  math.exp_sum(&correction, 1, max);  // exp(old maximum - new one); 0 in the first block
  *row.sum = *row.sum * correction + sum;
  *row.max = max;
  math.scale(row.acc, shape.value_dim, correction);
  math.weighted_sum(scores, values, shape.value_dim, row.acc);
}

void gather_queries(const AttentionShape& shape,
                    const TokenTile& tile,
                    const HeadsOfTile& heads,
                    float* to) {
  const std::int64_t token_elems = heads.num_heads * shape.key_dim;
  for (std::int64_t token = 0; token < tile.num_tokens; ++token)
    std::copy_n(heads.queries + token * heads.query_stride, token_elems, to + token * token_elems);
}

void write_results(const AttentionShape& shape,
                   const TokenTile& tile,
                   const HeadsOfTile& heads,
                   const Scratch& s) {
  for (std::int64_t row = 0; row < tile.num_tokens * heads.num_heads; ++row) {
    float* out = heads.out + row / heads.num_heads * heads.out_stride +
                 row % heads.num_heads * shape.value_dim;
    std::copy_n(s.acc + row * shape.value_dim, shape.value_dim, out);
    cpu::kernels().math.scale(out, shape.value_dim, 1.0F / s.sum[row]);
  }
}

}  // namespace

std::vector<TokenTile> token_tiles(const Batch& batch,
                                   std::int64_t first_row,
                                   std::int64_t num_rows,
                                   std::int64_t max_tokens) {
  std::vector<TokenTile> tiles;
  for (const SequenceSlice& sequence : batch.sequences) {
    const std::int64_t end =
        std::min(sequence.first_row + sequence.num_tokens, first_row + num_rows);
    const std::int64_t begin = std::max(sequence.first_row, first_row);
    const std::int64_t position_of_row_0 =
        sequence.context_len - sequence.num_tokens - sequence.first_row;
    for (std::int64_t row = begin; row < end; row += max_tokens) {
      tiles.push_back({.sequence = &sequence,
                       .first_row = row,
                       .first_position = position_of_row_0 + row,
                       .num_tokens = std::min(max_tokens, end - row)});
    }
  }
  return tiles;
}

std::int64_t attend_scratch_elems(const AttentionShape& shape, std::int64_t num_rows) {
  return num_rows * (shape.key_dim + kAttentionBlock + shape.value_dim + 2);
}

void attend(const AttentionShape& shape,
            const TokenTile& tile,
            const HeadsOfTile& heads,
            KeyValueSource& source,
            float* scratch) {
  const std::int64_t num_rows = tile.num_tokens * heads.num_heads;
  const Scratch s(shape, num_rows, scratch);
  gather_queries(shape, tile, heads, s.queries);
  std::fill_n(s.acc, num_rows * shape.value_dim, 0.0F);
  std::fill_n(s.max, num_rows, -std::numeric_limits<float>::infinity());
  std::fill_n(s.sum, num_rows, 0.0F);

  const auto first_seen = [&](std::int64_t position) {
    return shape.window == 0 ? 0 : std::max<std::int64_t>(0, position + 1 - shape.window);
  };
  const std::int64_t all_end = tile.first_position + tile.num_tokens;
  std::int64_t begin = first_seen(tile.first_position) / kAttentionBlock * kAttentionBlock;
  for (; begin < all_end; begin += kAttentionBlock) {
    const std::int64_t end = std::min(begin + kAttentionBlock, all_end);
    const KeysAndValues block = source.load(begin, end);
    cpu::kernels().math.matmul({.data = s.queries, .rows = num_rows, .stride = shape.key_dim},
                               block.keys, shape.key_dim, s.scores, kAttentionBlock);
    for (std::int64_t row = 0; row < num_rows; ++row) {
      const std::int64_t position = tile.first_position + row / heads.num_heads;
      const std::int64_t from = std::max(begin, first_seen(position)) - begin;
      const std::int64_t to = std::min(end, position + 1) - begin;
      if (from >= to) continue;
      const cpu::RowsF32 seen = {.data = block.values.data + from * block.values.stride,
                                 .rows = to - from,
                                 .stride = block.values.stride};
      add_block(shape, s.scores + row * kAttentionBlock + from, seen,
                {.max = s.max + row, .sum = s.sum + row, .acc = s.acc + row * shape.value_dim});
    }
  }
  write_results(shape, tile, heads, s);
}

}  // namespace graft::ops
