#include "graft/kernels/cuda/attention/sparse.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include "graft/testing/cuda/device.cuh"

namespace graft::kernels::cuda {
namespace {

using testing::DeviceArray;
using testing::Floats;
using testing::Random;
using testing::relative_error;

class SparseKernels : public testing::GpuTest {};

using Ints = std::vector<std::int32_t>;

// Three sequences, the last one padding: 3 tokens after a context, one token, none.
struct SparseBatch {
  static constexpr std::int64_t kBlockTokens = 16;
  static constexpr std::int64_t kRows = 5;

  explicit SparseBatch(std::int64_t long_context)
      : contexts{static_cast<std::int32_t>(long_context), 40, 1} {
    stride = long_context / kBlockTokens + 1;
    Ints blocks(static_cast<std::size_t>(3 * stride));
    std::iota(blocks.begin(), blocks.end(), 0);
    std::ranges::shuffle(blocks, Random(3).engine());
    tables = blocks;
  }

  std::int64_t num_slots() const { return 3 * stride * kBlockTokens; }
  std::int64_t context_of(std::int64_t row) const {  // 0: padding
    return row < 3 ? contexts[0] - 2 + row : row == 3 ? contexts[1] : 0;
  }
  std::int64_t slot(std::int64_t row, std::int64_t position) const {
    const std::int64_t entry = (row < 3 ? 0 : stride) + position / kBlockTokens;
    return tables[static_cast<std::size_t>(entry)] * kBlockTokens + position % kBlockTokens;
  }

  Ints first_rows = {0, 3, 4};
  Ints num_tokens = {3, 1, 0};
  Ints contexts;
  Ints tables;
  std::int64_t stride = 0;
};

struct DeviceBatch {
  explicit DeviceBatch(const SparseBatch& host)
      : first_rows(host.first_rows),
        num_tokens(host.num_tokens),
        contexts(host.contexts),
        tables(host.tables),
        batch{.first_rows = first_rows.get(),
              .num_tokens = num_tokens.get(),
              .context_lens = contexts.get(),
              .block_tables = tables.get(),
              .table_stride = host.stride,
              .block_tokens = SparseBatch::kBlockTokens,
              .num_sequences = 3,
              .num_rows = SparseBatch::kRows,
              .max_tokens = 3,
              .max_context = host.contexts[0] + 7} {}

  DeviceArray<std::int32_t> first_rows;
  DeviceArray<std::int32_t> num_tokens;
  DeviceArray<std::int32_t> contexts;
  DeviceArray<std::int32_t> tables;
  AttentionBatch batch;
};

TEST_F(SparseKernels, LayerNormMatchesTheFormula) {
  constexpr std::int64_t kRows = 3;
  for (const std::int64_t cols : {24, 128, 300}) {
    const Floats x = Random(1).floats(kRows * cols, 3.0F);
    const Floats weight = Random(2).floats(cols);
    const Floats bias = Random(3).floats(cols);
    Floats want;
    for (std::int64_t row = 0; row < kRows; ++row) {
      const float* values = x.data() + row * cols;
      const double mean = std::accumulate(values, values + cols, 0.0) / static_cast<double>(cols);
      double variance = 0;
      for (std::int64_t i = 0; i < cols; ++i)
        variance += (values[i] - mean) * (values[i] - mean) / static_cast<double>(cols);
      for (std::int64_t i = 0; i < cols; ++i) {
        const auto col = static_cast<std::size_t>(i);
        want.push_back(static_cast<float>(
            (values[i] - mean) / std::sqrt(variance + 1e-6) * weight[col] + bias[col]));
      }
    }
    const DeviceArray<float> data(x);
    const DeviceArray<float> weights(weight);
    const DeviceArray<float> biases(bias);
    layer_norm({data.get(), cols}, {.weight = weights.get(), .bias = biases.get()}, kRows, cols,
               nullptr);
    EXPECT_LE(relative_error(data.download(), want), 1e-5) << cols;
  }
}

TEST_F(SparseKernels, ScoresMatchTheFormula) {
  const SparseBatch host(150);
  const DeviceBatch device(host);
  for (const DType type : {DType::F32, DType::F16, DType::BF16}) {
    for (const IndexShape& shape :
         {IndexShape{.num_heads = 4, .head_dim = 32, .top_k = 16, .scale = 0.25F},
          IndexShape{.num_heads = 72, .head_dim = 100, .top_k = 16, .scale = 0.5F},
          IndexShape{.num_heads = 5, .head_dim = 40, .top_k = 7, .scale = 0.5F, .rate = 4}}) {
      const std::int64_t num_values = host.num_slots() * shape.head_dim;
      Floats keys = Random(5).floats(num_values);
      std::vector<std::byte> bytes(bytes_of(type, num_values));
      const quant::Codec& codec = quant::reference_codecs()[static_cast<std::size_t>(type)];
      codec.encode(keys.data(), bytes.data(), keys.size());
      codec.decode(bytes.data(), keys.data(), keys.size());
      const std::int64_t q_cols = shape.num_heads * shape.head_dim;
      const Floats q = Random(6).floats(SparseBatch::kRows * q_cols);
      const Floats weights = Random(7).floats(SparseBatch::kRows * shape.num_heads);
      const DeviceArray<std::byte> cache(bytes);
      const DeviceArray<float> queries(q);
      const DeviceArray<float> factors(weights);
      const std::int64_t stride = max_keys(shape, device.batch);
      const DeviceArray<float> scores(static_cast<std::size_t>(4 * stride));
      // Rows 1 to 4: the scores of row r are in row r - 1.
      index_scores(shape, device.batch,
                   {.dtype = type, .data = cache.get(), .key_size = shape.head_dim},
                   {queries.get(), q_cols}, {factors.get(), shape.num_heads}, scores.get(),
                   {.first = 1, .count = 4}, nullptr);
      const Floats got = scores.download();
      for (std::int64_t row = 1; row < 4; ++row) {
        Floats want;
        const std::int64_t num_keys = host.context_of(row) / shape.rate;
        for (std::int64_t key = 0; key < num_keys; ++key) {
          const std::int64_t position = (key + 1) * shape.rate - 1;
          double sum = 0;
          for (std::int64_t head = 0; head < shape.num_heads; ++head) {
            double product = 0;
            for (std::int64_t i = 0; i < shape.head_dim; ++i) {
              product +=
                  double{q[static_cast<std::size_t>(row * q_cols + head * shape.head_dim + i)]} *
                  keys[static_cast<std::size_t>(host.slot(row, position) * shape.head_dim + i)];
            }
            sum += weights[static_cast<std::size_t>(row * shape.num_heads + head)] *
                   std::max(product, 0.0);
          }
          want.push_back(static_cast<float>(sum * shape.scale));
        }
        const auto first = got.begin() + (row - 1) * stride;
        const Floats part(first, first + num_keys);
        EXPECT_LE(relative_error(part, want), 1e-5) << name(type) << ' ' << row;
      }
    }
  }
}

// Levels with many equal scores, zeros of both signs among them.
TEST_F(SparseKernels, SelectionIsExactWithTiesByPosition) {
  for (const std::int64_t context : {60, 5000}) {
    const SparseBatch host(context);
    const DeviceBatch device(host);
    for (const auto& [top_k, rate] : {std::pair{1, 1}, {37, 1}, {50, 1}, {5, 4}, {9, 7}}) {
      const IndexShape shape = {.num_heads = 1, .head_dim = 1, .top_k = top_k, .rate = rate};
      const std::int64_t stride = max_keys(shape, device.batch);
      Floats scores = Random(8).floats(SparseBatch::kRows * stride, 8.0F);
      for (float& score : scores)
        score = std::round(score) * 0.5F;  // -0 too
      const DeviceArray<float> data(scores);
      const DeviceArray<std::int32_t> selected(
          static_cast<std::size_t>(SparseBatch::kRows * std::int64_t{top_k}));
      select_positions(shape, device.batch, data.get(), selected.get(),
                       {.first = 0, .count = SparseBatch::kRows}, nullptr);
      const Ints got = selected.download();
      for (std::int64_t row = 0; row < SparseBatch::kRows; ++row) {
        const float* own = scores.data() + row * stride;
        Ints order(static_cast<std::size_t>(host.context_of(row) / rate));
        std::iota(order.begin(), order.end(), 0);
        std::ranges::stable_sort(order,
                                 [&](std::int32_t a, std::int32_t b) { return own[a] > own[b]; });
        order.resize(std::min(order.size(), static_cast<std::size_t>(top_k)));
        std::ranges::sort(order);
        order.resize(static_cast<std::size_t>(top_k), -1);
        EXPECT_EQ(Ints(got.begin() + row * top_k, got.begin() + (row + 1) * top_k), order)
            << context << ' ' << top_k << ' ' << rate << ' ' << row;
      }
    }
  }
}

// Rows of 16-byte vectors and others.
TEST_F(SparseKernels, GathersTheSelectedRows) {
  constexpr std::int64_t kTopK = 20;
  const SparseBatch host(150);
  const DeviceBatch device(host);
  for (const std::int64_t cols : {24, 9}) {
    std::vector<std::uint16_t> cache(static_cast<std::size_t>(host.num_slots() * cols));
    std::iota(cache.begin(), cache.end(), std::uint16_t{1});
    Ints positions;
    for (std::int64_t row = 0; row < SparseBatch::kRows; ++row) {
      for (std::int32_t i = 0; i < kTopK; ++i)
        positions.push_back(i * 2 < host.context_of(row) ? i * 2 : -1);
    }
    const DeviceArray<std::uint16_t> rows(cache);
    const DeviceArray<std::int32_t> selected(positions);
    const DeviceArray<std::uint16_t> data(static_cast<std::size_t>(4 * kTopK * cols));
    const DeviceArray<std::int32_t> arrays(12);
    const SelectedRows to = {.data = data.get(), .arrays = arrays.get()};
    gather_selected(kTopK, device.batch,
                    {.dtype = DType::F16, .data = rows.get(), .key_size = cols}, selected.get(), to,
                    {.first = 1, .count = 4}, nullptr);
    EXPECT_EQ(arrays.download(), (Ints{0, 1, 2, 3, 1, 1, 1, 0, 20, 20, 20, 0}));
    const std::vector<std::uint16_t> got = data.download();
    for (std::int64_t row = 1; row < 4; ++row) {
      for (std::int64_t i = 0; i < kTopK; ++i) {
        for (std::int64_t col = 0; col < cols; ++col) {
          ASSERT_EQ(got[static_cast<std::size_t>(((row - 1) * kTopK + i) * cols + col)],
                    cache[static_cast<std::size_t>(host.slot(row, i * 2) * cols + col)])
              << row << ' ' << i << ' ' << col;
        }
      }
    }
  }
}

}  // namespace
}  // namespace graft::kernels::cuda
