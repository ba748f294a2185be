#include "graft/kernels/cuda/attention/attention.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <vector>

#include "graft/testing/cuda/device.cuh"

namespace graft::kernels::cuda {
namespace {

using testing::DeviceArray;
using testing::Floats;
using testing::Random;
using testing::relative_error;

struct SequenceSize {
  std::int64_t num_tokens;
  std::int64_t context_len;
};

struct Case {
  AttentionShape shape;
  std::vector<SequenceSize> sequences;
  std::int64_t block_tokens = 16;
  DType dtype = DType::F32;
  std::int64_t max_context = 0;  // 0: the longest context
  bool sinks = false;
};

// A cache with shuffled blocks holding the keys and values of all sequences, run on the GPU and on
// a double-precision reference.
class AttentionCase {
 public:
  explicit AttentionCase(const Case& c) : case_(c), random_(21) {
    for (const SequenceSize& s : c.sequences)
      num_blocks_ += (s.context_len + c.block_tokens - 1) / c.block_tokens;
    key_size_ = c.shape.num_kv_heads * c.shape.key_dim;
    const bool is_mla = c.shape.value_offset == 0;
    value_size_ = is_mla ? 0 : c.shape.num_kv_heads * c.shape.value_dim;
    fill_cache();
    fill_block_tables();
    if (c.sinks) sinks_ = random_.floats(c.shape.num_heads, 4.0F);
  }

  // Runs all sequences, or the first `count`.
  Floats run(std::int64_t count = 0) { return run_heads(count, 0); }
  // Over F16 copies of `at_once` KV heads at a time.
  Floats run_gathered(std::int64_t at_once) { return run_heads(0, at_once); }

  Floats reference() const {
    Floats out(static_cast<std::size_t>(num_rows_ * out_cols()));
    for (std::size_t s = 0; s < case_.sequences.size(); ++s) {
      for (std::int64_t token = 0; token < case_.sequences[s].num_tokens; ++token) {
        for (std::int64_t head = 0; head < case_.shape.num_heads; ++head)
          attend(s, token, head, out.data());
      }
    }
    return out;
  }

  std::int64_t num_splits = 0;  // of the last run
  AttentionPlan::Kernel kernel = {};

 private:
  // gathered: KV heads at a time; 0: over the cache itself
  Floats run_heads(std::int64_t count, std::int64_t gathered) {
    const DeviceArray<float> queries(queries_);
    const DeviceArray<float> out(static_cast<std::size_t>(num_rows_ * out_cols()));
    const DeviceArray<std::byte> cache(cache_bytes_);
    const DeviceArray<std::int32_t> first_rows(first_rows_);
    const DeviceArray<std::int32_t> num_tokens(num_tokens_);
    const DeviceArray<std::int32_t> context_lens(context_lens_);
    const DeviceArray<std::int32_t> tables(tables_);
    AttentionBatch batch = {
        .first_rows = first_rows.get(),
        .num_tokens = num_tokens.get(),
        .context_lens = context_lens.get(),
        .block_tables = tables.get(),
        .table_stride = table_stride_,
        .block_tokens = case_.block_tokens,
        .num_sequences = count != 0 ? count : static_cast<std::int64_t>(case_.sequences.size()),
        .num_rows = num_rows_,
        .max_context = case_.max_context};
    for (const SequenceSize& s : case_.sequences) {
      batch.max_tokens = std::max(batch.max_tokens, s.num_tokens);
      batch.max_context = std::max(batch.max_context, s.context_len);
    }
    const DeviceArray<float> sinks(sinks_);
    AttentionShape shape = case_.shape;
    if (case_.sinks) shape.sinks = sinks.get();
    const CacheRows rows = {.dtype = case_.dtype,
                            .data = cache.get(),
                            .key_size = key_size_,
                            .value_size = value_size_};
    if (gathered == 0) {
      attend_on_gpu(shape, batch, rows, {queries.get(), query_cols()}, {out.get(), out_cols()});
      return out.download();
    }
    EXPECT_TRUE(is_gathered(shape, batch, case_.dtype));
    const std::int64_t positions = std::accumulate(context_lens_.begin(), context_lens_.end(), 0);
    const std::int64_t group = shape.num_heads / shape.num_kv_heads;
    for (std::int64_t first = 0; first < shape.num_kv_heads; first += gathered) {
      const CacheRows packed = {.key_size = gathered * shape.key_dim,
                                .value_size = gathered * shape.value_dim};
      const DeviceArray<Half> halves(static_cast<std::size_t>(positions * packed.row_elems()));
      gather_heads(shape, batch, rows,
                   {.to = halves.get(),
                    .positions = positions,
                    .first_kv_head = first,
                    .num_kv_heads = gathered},
                   nullptr);
      AttentionShape heads = shape;
      heads.num_heads = gathered * group;
      heads.num_kv_heads = gathered;
      heads.value_offset = packed.key_size;
      AttentionBatch own = batch;
      own.block_tables = nullptr;
      CacheRows data = packed;
      data.data = halves.get();
      attend_on_gpu(heads, own, data, {queries.get() + first * group * shape.key_dim, query_cols()},
                    {out.get() + first * group * shape.value_dim, out_cols()});
    }
    return out.download();
  }

  void attend_on_gpu(const AttentionShape& shape,
                     const AttentionBatch& batch,
                     const CacheRows& rows,
                     ConstRows queries,
                     Rows out) {
    const AttentionPlan plan = plan_attention(shape, batch, rows.dtype);
    num_splits = plan.num_splits;
    kernel = plan.kernel;
    const DeviceArray<std::byte> scratch(plan.scratch_bytes);
    attention(shape, batch, plan, rows, queries, out, scratch.get(), nullptr);
    cudaDeviceSynchronize();
  }

  std::int64_t query_cols() const { return case_.shape.num_heads * case_.shape.key_dim; }
  std::int64_t out_cols() const { return case_.shape.num_heads * case_.shape.value_dim; }
  std::int64_t row_elems() const { return key_size_ + value_size_; }

  void fill_cache() {
    const std::int64_t num_slots = num_blocks_ * case_.block_tokens;
    cache_values_ = random_.floats(num_slots * row_elems());
    std::vector<std::int32_t> slots(static_cast<std::size_t>(num_slots));
    std::iota(slots.begin(), slots.end(), 0);
    const std::size_t row_bytes = bytes_of(case_.dtype, row_elems());
    const DeviceArray<std::byte> rows(static_cast<std::size_t>(num_slots) * row_bytes);
    const DeviceArray<float> values(cache_values_);
    const DeviceArray<std::int32_t> slot_data(slots);
    write_cache({.dtype = case_.dtype,
                 .data = rows.get(),
                 .key_size = key_size_,
                 .value_size = value_size_},
                {values.get(), row_elems()}, {values.get() + key_size_, row_elems()},
                slot_data.get(), num_slots, nullptr);
    cache_bytes_ = rows.download();
    for (std::int64_t slot = 0; slot < num_slots; ++slot) {
      decode_cache_row(case_.dtype, row_elems(),
                       cache_bytes_.data() + static_cast<std::size_t>(slot) * row_bytes, 0,
                       std::span(cache_values_)
                           .subspan(static_cast<std::size_t>(slot * row_elems()),
                                    static_cast<std::size_t>(row_elems())));
    }
  }

  void fill_block_tables() {
    std::vector<std::int32_t> blocks(static_cast<std::size_t>(num_blocks_));
    std::iota(blocks.begin(), blocks.end(), 0);
    std::ranges::shuffle(blocks, random_.engine());
    for (const SequenceSize& s : case_.sequences)
      table_stride_ = std::max(table_stride_, s.context_len / case_.block_tokens + 2);
    std::size_t next = 0;
    for (const SequenceSize& s : case_.sequences) {
      first_rows_.push_back(static_cast<std::int32_t>(num_rows_));
      num_tokens_.push_back(static_cast<std::int32_t>(s.num_tokens));
      context_lens_.push_back(static_cast<std::int32_t>(s.context_len));
      num_rows_ += s.num_tokens;
      std::vector<std::int32_t> table(static_cast<std::size_t>(table_stride_), -1);
      for (std::int64_t i = 0; i * case_.block_tokens < s.context_len; ++i)
        table[static_cast<std::size_t>(i)] = blocks[next++];
      tables_.insert(tables_.end(), table.begin(), table.end());
    }
    queries_ = random_.floats(num_rows_ * query_cols());
  }

  const float* row_at(std::size_t sequence, std::int64_t position) const {
    const std::int32_t block = tables_[sequence * static_cast<std::size_t>(table_stride_) +
                                       static_cast<std::size_t>(position / case_.block_tokens)];
    return cache_values_.data() +
           (block * case_.block_tokens + position % case_.block_tokens) * row_elems();
  }

  void attend(std::size_t sequence, std::int64_t token, std::int64_t head, float* out) const {
    const AttentionShape& shape = case_.shape;
    const SequenceSize& s = case_.sequences[sequence];
    const std::int64_t row = first_rows_[sequence] + token;
    const std::int64_t position = s.context_len - s.num_tokens + token;
    const std::int64_t kv_head = head / (shape.num_heads / shape.num_kv_heads);
    const float* q = queries_.data() + row * query_cols() + head * shape.key_dim;
    const std::int64_t chunk = shape.chunk == 0 ? 0 : position / shape.chunk * shape.chunk;
    const std::int64_t first =
        shape.window == 0 ? chunk : std::max<std::int64_t>(chunk, position + 1 - shape.window);
    std::vector<double> weights;
    double max = -INFINITY;
    for (std::int64_t p = first; p <= position; ++p) {
      const float* k = row_at(sequence, p) + kv_head * shape.key_dim;
      double score = 0;
      for (std::int64_t i = 0; i < shape.key_dim; ++i)
        score += static_cast<double>(q[i]) * k[i];
      weights.push_back(score * shape.scale);
      max = std::max(max, weights.back());
    }
    double sum = case_.sinks
                     ? std::exp(static_cast<double>(sinks_[static_cast<std::size_t>(head)]) - max)
                     : 0.0;
    for (double& weight : weights)
      sum += weight = std::exp(weight - max);
    for (std::int64_t i = 0; i < shape.value_dim; ++i) {
      double value = 0;
      for (std::int64_t p = first; p <= position; ++p)
        value += weights[static_cast<std::size_t>(p - first)] / sum *
                 row_at(sequence, p)[shape.value_offset + kv_head * shape.value_dim + i];
      out[row * out_cols() + head * shape.value_dim + i] = static_cast<float>(value);
    }
  }

  Case case_;
  Random random_;
  std::int64_t num_blocks_ = 0;
  std::int64_t key_size_ = 0;
  std::int64_t value_size_ = 0;
  std::int64_t num_rows_ = 0;
  std::int64_t table_stride_ = 0;
  Floats cache_values_;
  Floats queries_;
  Floats sinks_;  // [heads]; empty: none
  std::vector<std::byte> cache_bytes_;
  std::vector<std::int32_t> first_rows_;
  std::vector<std::int32_t> num_tokens_;
  std::vector<std::int32_t> context_lens_;
  std::vector<std::int32_t> tables_;
};

AttentionShape gqa_shape(std::int64_t num_heads,
                         std::int64_t num_kv_heads,
                         std::int64_t head_dim,
                         std::int64_t window = 0) {
  return {.num_heads = num_heads,
          .num_kv_heads = num_kv_heads,
          .key_dim = head_dim,
          .value_dim = head_dim,
          .value_offset = num_kv_heads * head_dim,
          .window = window,
          .scale = 1.0F / std::sqrt(static_cast<float>(head_dim))};
}

AttentionShape mla_shape(std::int64_t num_heads, std::int64_t rank, std::int64_t rope) {
  return {.num_heads = num_heads,
          .num_kv_heads = 1,
          .key_dim = rank + rope,
          .value_dim = rank,
          .value_offset = 0,
          .scale = 0.1F};
}

void expect_matches_reference(const Case& c, std::int64_t min_splits = 1) {
  AttentionCase test(c);
  EXPECT_LT(relative_error(test.run(), test.reference()), 2e-6);
  EXPECT_GE(test.num_splits, min_splits);
}

class AttentionKernels : public testing::GpuTest {};

TEST_F(AttentionKernels, Prompts) {
  expect_matches_reference(
      {.shape = gqa_shape(4, 2, 64), .sequences = {{37, 37}, {1, 1}, {70, 70}}});
  expect_matches_reference({.shape = gqa_shape(3, 3, 128), .sequences = {{65, 65}}});
  expect_matches_reference({.shape = gqa_shape(2, 1, 256), .sequences = {{40, 40}}});
}

TEST_F(AttentionKernels, ChunksAfterPrefix) {
  expect_matches_reference(
      {.shape = gqa_shape(4, 2, 64), .sequences = {{5, 105}, {33, 40}, {20, 21}}});
}

TEST_F(AttentionKernels, DecodeWithKvSplits) {
  expect_matches_reference(
      {.shape = gqa_shape(8, 2, 64), .sequences = {{1, 700}, {1, 1}, {1, 257}, {1, 256}}}, 2);
  expect_matches_reference({.shape = gqa_shape(16, 1, 128), .sequences = {{1, 600}}}, 2);
}

TEST_F(AttentionKernels, LongContexts) {
  Case c = {.shape = gqa_shape(8, 2, 64), .sequences = {{1, 5000}, {3, 4097}}, .dtype = DType::F16};
  expect_matches_reference(c, 8);
  c.shape.arithmetic = Arithmetic::F16;
  AttentionCase test(c);
  EXPECT_LT(relative_error(test.run(), test.reference()), 1e-3);
}

// Padding sequences, and a max_context bucket longer than any context.
TEST_F(AttentionKernels, PaddedToBuckets) {
  expect_matches_reference({.shape = gqa_shape(8, 2, 64),
                            .sequences = {{1, 300}, {0, 0}, {1, 5}, {0, 0}},
                            .max_context = 4096},
                           8);
}

// Head dims without vector alignment, cache blocks without chunk alignment.
TEST_F(AttentionKernels, OddSizes) {
  expect_matches_reference(
      {.shape = gqa_shape(6, 2, 10), .sequences = {{13, 50}, {1, 333}}, .block_tokens = 5});
  expect_matches_reference(
      {.shape = gqa_shape(2, 2, 129), .sequences = {{9, 33}}, .block_tokens = 7});
  expect_matches_reference({.shape = gqa_shape(5, 1, 1), .sequences = {{3, 3}}, .block_tokens = 1});
}

TEST_F(AttentionKernels, WindowEdges) {
  for (const std::int64_t window : {1, 31, 32, 33, 256, 300, 1000}) {
    expect_matches_reference(
        {.shape = gqa_shape(4, 2, 32, window), .sequences = {{1, 800}, {1, 32}, {1, 33}}});
    expect_matches_reference(
        {.shape = gqa_shape(4, 2, 32, window), .sequences = {{40, 100}, {65, 65}}});
  }
}

TEST_F(AttentionKernels, ChunkEdges) {
  for (const std::int64_t chunk : {1, 31, 32, 33, 256, 300, 1000}) {
    for (const DType type : {DType::F32, DType::F16}) {
      AttentionShape shape = gqa_shape(4, 2, 32);
      shape.chunk = chunk;
      expect_matches_reference(
          {.shape = shape, .sequences = {{1, 800}, {1, 32}, {1, 33}}, .dtype = type});
      expect_matches_reference({.shape = shape, .sequences = {{40, 100}, {65, 65}}, .dtype = type});
      if (type == DType::F32) continue;
      shape.arithmetic = Arithmetic::F16;
      AttentionCase test({.shape = shape, .sequences = {{150, 420}, {1, 700}}, .dtype = type});
      EXPECT_LT(relative_error(test.run(), test.reference()), 1e-3) << "chunks of " << chunk;
    }
  }
}

TEST_F(AttentionKernels, CacheTypes) {
  for (const DType type : {DType::F16, DType::BF16, DType::F8_E4M3}) {
    expect_matches_reference(
        {.shape = gqa_shape(4, 2, 64), .sequences = {{20, 90}, {1, 300}}, .dtype = type});
    expect_matches_reference({.shape = gqa_shape(3, 1, 9), .sequences = {{2, 40}}, .dtype = type});
    expect_matches_reference(
        {.shape = mla_shape(4, 96, 16), .sequences = {{2, 40}}, .dtype = type});
  }
}

TEST_F(AttentionKernels, Mla) {
  expect_matches_reference({.shape = mla_shape(16, 512, 64), .sequences = {{1, 300}, {1, 40}}}, 2);
  expect_matches_reference({.shape = mla_shape(5, 512, 64), .sequences = {{7, 50}}});
  expect_matches_reference(
      {.shape = mla_shape(3, 24, 6), .sequences = {{20, 20}}, .block_tokens = 3});
}

// On tensor cores queries and softmax weights have the precision of the cache.
TEST_F(AttentionKernels, TensorCores) {
  const std::vector<Case> cases = {
      {.shape = gqa_shape(4, 2, 64), .sequences = {{37, 37}, {1, 1}, {70, 130}}},
      {.shape = gqa_shape(3, 3, 128), .sequences = {{65, 200}, {0, 0}, {64, 64}}},
      {.shape = gqa_shape(8, 2, 128), .sequences = {{1, 700}, {1, 1}, {1, 257}, {1, 64}}},
      {.shape = gqa_shape(8, 2, 128), .sequences = {{1, 700}, {1, 1}}, .max_context = 1 << 17},
      {.shape = gqa_shape(6, 2, 40), .sequences = {{1, 300}, {20, 50}}, .block_tokens = 5},
      {.shape = gqa_shape(20, 1, 80), .sequences = {{1, 333}}, .max_context = 2048},
      {.shape = gqa_shape(8, 2, 256), .sequences = {{1, 700}, {1, 1}, {1, 257}}},
      {.shape = gqa_shape(4, 1, 200, 65), .sequences = {{1, 300}, {2, 40}}},
      {.shape = gqa_shape(4, 2, 32, 1), .sequences = {{1, 90}, {30, 100}}},
      {.shape = gqa_shape(4, 2, 32, 65), .sequences = {{70, 300}}},
      {.shape = gqa_shape(4, 2, 32, 300), .sequences = {{1, 800}, {1, 32}}},
      {.shape = mla_shape(16, 512, 64), .sequences = {{1, 300}, {1, 40}, {1, 1}, {0, 0}}},
      {.shape = mla_shape(16, 512, 64), .sequences = {{1, 130}}, .max_context = 256},
      {.shape = mla_shape(5, 512, 64), .sequences = {{17, 50}, {30, 30}}},
      {.shape = mla_shape(128, 512, 64), .sequences = {{1, 200}, {1, 64}}},
      {.shape = mla_shape(40, 144, 32), .sequences = {{3, 90}}, .block_tokens = 3},
  };
  for (Case c : cases) {
    c.shape.arithmetic = Arithmetic::F16;
    for (const DType type : {DType::F16, DType::BF16}) {
      c.dtype = type;
      AttentionCase test(c);
      EXPECT_LT(relative_error(test.run(), test.reference()), type == DType::F16 ? 1e-3 : 6e-3);
    }
  }
}

// Keys and values of quantized caches become F16 for tensor cores, F32 otherwise.
TEST_F(AttentionKernels, QuantizedCaches) {
  using Kernel = AttentionPlan::Kernel;
  struct QuantizedCase {
    Case shape;
    Kernel kernel;
  };
  const std::vector<QuantizedCase> cases = {
      {{.shape = gqa_shape(8, 2, 128), .sequences = {{1, 1}, {1, 17}, {1, 256}, {1, 700}}},
       Kernel::Decode},
      {{.shape = gqa_shape(14, 2, 64), .sequences = {{1, 2000}, {0, 0}, {2, 300}}}, Kernel::Decode},
      {{.shape = gqa_shape(8, 2, 256), .sequences = {{1, 700}, {1, 1}, {1, 257}}}, Kernel::Decode},
      {{.shape = gqa_shape(8, 2, 128, 300), .sequences = {{1, 1500}, {1, 299}}, .block_tokens = 5},
       Kernel::Decode},
      {{.shape = gqa_shape(4, 2, 96), .sequences = {{70, 130}, {20, 50}}}, Kernel::Simt},
      {{.shape = mla_shape(16, 512, 64), .sequences = {{1, 300}, {1, 40}, {1, 1}}}, Kernel::Mla},
      {{.shape = mla_shape(40, 128, 64), .sequences = {{17, 150}, {30, 30}}}, Kernel::Mla},
  };
  for (QuantizedCase c : cases) {
    for (const DType type : {DType::F8_E4M3, DType::Q8_0, DType::Q4_0}) {
      c.shape.dtype = type;
      c.shape.shape.arithmetic = Arithmetic::F32;
      expect_matches_reference(c.shape);
      c.shape.shape.arithmetic = Arithmetic::F16;
      AttentionCase test(c.shape);
      EXPECT_LT(relative_error(test.run(), test.reference()), 1.5e-3)
          << name(type) << ", heads of " << c.shape.shape.key_dim;
      EXPECT_EQ(test.kernel, c.kernel) << name(type) << ", heads of " << c.shape.shape.key_dim;
    }
  }
}

// Attention over F16 copies of some KV heads equals that over the cache.
TEST_F(AttentionKernels, GatheredHeads) {
  const std::vector<Case> cases = {
      {.shape = gqa_shape(32, 8, 128), .sequences = {{261, 261}, {3, 90}, {129, 200}}},
      {.shape = gqa_shape(4, 2, 96), .sequences = {{70, 130}, {20, 50}}, .block_tokens = 5},
      {.shape = gqa_shape(4, 2, 64, 65), .sequences = {{70, 300}}},
  };
  for (Case c : cases) {
    c.shape.arithmetic = Arithmetic::F16;
    for (const DType type : {DType::F8_E4M3, DType::Q8_0, DType::Q4_0}) {
      c.dtype = type;
      AttentionCase test(c);
      const std::int64_t kv_heads = c.shape.num_kv_heads;
      for (const std::int64_t at_once : {kv_heads, kv_heads / 2})
        EXPECT_LT(relative_error(test.run_gathered(at_once), test.reference()), 1.5e-3)
            << name(type) << ", " << at_once << " heads of " << c.shape.key_dim;
    }
  }
}

// Many rows: several tiles, with rows and keys that are no multiples of a tile.
TEST_F(AttentionKernels, PrefillKernel) {
  const std::vector<Case> cases = {
      {.shape = gqa_shape(32, 8, 128), .sequences = {{261, 261}, {3, 90}, {129, 200}}},
      {.shape = gqa_shape(24, 24, 128), .sequences = {{300, 300}}, .block_tokens = 5},
      {.shape = gqa_shape(6, 2, 40), .sequences = {{100, 3000}, {70, 300}}},
      {.shape = gqa_shape(20, 20, 64), .sequences = {{300, 400}, {0, 0}, {65, 65}}},
      {.shape = gqa_shape(28, 4, 80), .sequences = {{150, 1333}}},
      {.shape = gqa_shape(32, 8, 128, 100), .sequences = {{200, 300}, {90, 90}}},
      {.shape = gqa_shape(40, 8, 64, 1), .sequences = {{420, 420}}},
  };
  for (Case c : cases) {
    c.shape.arithmetic = Arithmetic::F16;
    for (const DType type : {DType::F16, DType::BF16}) {
      c.dtype = type;
      AttentionCase test(c);
      EXPECT_LT(relative_error(test.run(), test.reference()), type == DType::F16 ? 1e-3 : 6e-3);
      EXPECT_EQ(test.kernel, AttentionPlan::Kernel::Prefill);
    }
  }
}

// A sink joins the sum of its head once, with and without KV splits, in every kernel.
TEST_F(AttentionKernels, Sinks) {
  using Kernel = AttentionPlan::Kernel;
  struct SinkCase {
    Case shape;
    Kernel kernel;  // of F16 arithmetic
    std::int64_t min_splits;
  };
  const std::vector<SinkCase> cases = {
      {{.shape = gqa_shape(16, 2, 64), .sequences = {{1, 300}, {1, 1}}}, Kernel::Decode, 1},
      {{.shape = gqa_shape(16, 2, 64), .sequences = {{1, 1300}, {1, 1}}}, Kernel::Decode, 2},
      {{.shape = gqa_shape(16, 2, 64, 128), .sequences = {{1, 1300}, {1, 40}}}, Kernel::Decode, 2},
      {{.shape = gqa_shape(8, 2, 64), .sequences = {{37, 37}, {70, 130}}}, Kernel::Mma, 1},
      {{.shape = gqa_shape(8, 2, 64, 33), .sequences = {{37, 900}}}, Kernel::Mma, 2},
      {{.shape = gqa_shape(32, 8, 64), .sequences = {{261, 261}, {129, 200}}}, Kernel::Prefill, 1},
      {{.shape = gqa_shape(32, 8, 64, 100), .sequences = {{300, 300}}}, Kernel::Prefill, 1},
      {{.shape = gqa_shape(6, 2, 40), .sequences = {{100, 3000}, {70, 300}}}, Kernel::Prefill, 2},
  };
  for (SinkCase c : cases) {
    c.shape.sinks = true;
    expect_matches_reference(c.shape);
    c.shape.shape.arithmetic = Arithmetic::F16;
    for (const DType type : {DType::F16, DType::BF16}) {
      c.shape.dtype = type;
      AttentionCase test(c.shape);
      EXPECT_LT(relative_error(test.run(), test.reference()), type == DType::F16 ? 1e-3 : 6e-3);
      EXPECT_EQ(test.kernel, c.kernel);
      EXPECT_GE(test.num_splits, c.min_splits);
    }
  }
}

// Single tokens, with one to many chunks per split.
TEST_F(AttentionKernels, DecodeKernel) {
  const std::vector<Case> cases = {
      {.shape = gqa_shape(8, 1, 128), .sequences = {{1, 130}}, .max_context = 256},
      {.shape = gqa_shape(8, 2, 128), .sequences = {{1, 1}, {1, 17}, {1, 256}, {1, 257}, {1, 512}}},
      {.shape = gqa_shape(16, 1, 64), .sequences = {{1, 511}, {0, 0}, {1, 3}}},
      {.shape = gqa_shape(7, 1, 128), .sequences = {{1, 2000}, {1, 513}}},
      {.shape = gqa_shape(10, 2, 72), .sequences = {{1, 300}, {3, 90}}, .block_tokens = 5},
      {.shape = gqa_shape(4, 2, 24, 33), .sequences = {{1, 400}, {2, 100}, {4, 4}}},
      {.shape = gqa_shape(8, 1, 128, 300), .sequences = {{1, 1500}, {1, 299}, {1, 301}}},
  };
  for (Case c : cases) {
    c.shape.arithmetic = Arithmetic::F16;
    for (const DType type : {DType::F16, DType::BF16}) {
      c.dtype = type;
      AttentionCase test(c);
      EXPECT_LT(relative_error(test.run(), test.reference()), type == DType::F16 ? 1e-3 : 6e-3);
      EXPECT_EQ(test.kernel, AttentionPlan::Kernel::Decode);
    }
  }
}

// Neither on the other sequences nor on the longest context of the batch.
TEST_F(AttentionKernels, DecodeRowsDoNotDependOnTheBatch) {
  Case c = {.shape = gqa_shape(8, 2, 128), .sequences = {{1, 700}, {1, 90}, {1, 512}, {1, 513}}};
  c.shape.arithmetic = Arithmetic::F16;
  c.dtype = DType::F16;
  AttentionCase test(c);
  const Floats batched = test.run();
  const Floats alone = test.run(1);
  EXPECT_TRUE(std::equal(batched.begin(), batched.begin() + 8 * 128, alone.begin()));
  c.max_context = 1 << 17;
  EXPECT_EQ(AttentionCase(c).run(), batched);
}

// exp(score) overflows f32.
TEST_F(AttentionKernels, LargeScores) {
  Case c = {.shape = gqa_shape(4, 2, 64), .sequences = {{1, 500}, {30, 60}}};
  c.shape.scale = 40.0F;
  AttentionCase test(c);
  EXPECT_LT(relative_error(test.run(), test.reference()), 1e-3);
}

// A sequence has the same bits alone and batched, with the same buckets.
TEST_F(AttentionKernels, SequencesAreIndependent) {
  AttentionCase test({.shape = gqa_shape(4, 2, 64), .sequences = {{9, 90}, {30, 150}}});
  const Floats batched = test.run();
  const Floats alone = test.run(1);
  EXPECT_TRUE(std::equal(batched.begin(), batched.begin() + 9 * 4 * 64, alone.begin()));
}

}  // namespace
}  // namespace graft::kernels::cuda
