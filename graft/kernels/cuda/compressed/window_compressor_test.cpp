// Compressed windows and the rows that tokens attend to, against plain loops.

#include "graft/kernels/cuda/compressed/window_compressor.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include "graft/kernels/cuda/compressed/attended_rows.h"
#include "graft/testing/cuda/device.cuh"

namespace graft::kernels::cuda {
namespace {

using testing::DeviceArray;
using testing::Floats;
using testing::Random;
using testing::relative_error;
using Ints = std::vector<std::int32_t>;

class WindowKernels : public testing::GpuTest {};

// Two sequences: `tokens` after a context, and one token; their rows are 0 … tokens - 1 and tokens.
class WindowBatch {
 public:
  static constexpr std::int64_t kBlockTokens = 16;

  WindowBatch(std::int64_t context, std::int64_t tokens, std::int64_t other)
      : contexts_{static_cast<std::int32_t>(context), static_cast<std::int32_t>(other)},
        tokens_(tokens),
        stride_(std::max(context, other) / kBlockTokens + 1),
        table_(static_cast<std::size_t>(2 * stride_)) {
    std::iota(table_.begin(), table_.end(), 0);
    std::ranges::shuffle(table_, Random(3).engine());
    arrays_.upload({0, static_cast<std::int32_t>(tokens), static_cast<std::int32_t>(tokens), 1,
                    contexts_[0], contexts_[1]});
    tables_.upload(table_);
  }

  AttentionBatch get() const {
    return {.first_rows = arrays_.get(),
            .num_tokens = arrays_.get() + 2,
            .context_lens = arrays_.get() + 4,
            .block_tables = tables_.get(),
            .table_stride = stride_,
            .block_tokens = kBlockTokens,
            .num_sequences = 2,
            .num_rows = tokens_ + 1,
            .max_tokens = tokens_,
            .max_context = std::max(contexts_[0], contexts_[1]) + 5};
  }
  std::int64_t num_slots() const { return 2 * stride_ * kBlockTokens; }
  std::int64_t num_rows() const { return tokens_ + 1; }
  std::int64_t position(std::int64_t row) const {
    return row < tokens_ ? contexts_[0] - tokens_ + row : contexts_[1] - 1;
  }
  std::int64_t slot(std::int64_t row, std::int64_t position) const {
    const std::int64_t entry = (row < tokens_ ? 0 : stride_) + position / kBlockTokens;
    return table_[static_cast<std::size_t>(entry)] * kBlockTokens + position % kBlockTokens;
  }

 private:
  Ints contexts_;
  std::int64_t tokens_;
  std::int64_t stride_;
  Ints table_;
  DeviceArray<std::int32_t> arrays_{6};
  DeviceArray<std::int32_t> tables_{static_cast<std::size_t>(2 * stride_)};
};

// A cache in device memory and its values as floats.
struct RandomCache {
  RandomCache(DType type, std::int64_t count, unsigned seed, float stddev)
      : values(Random(seed).floats(count, stddev)), bytes(bytes_of(type, count)) {
    const quant::Codec& codec = quant::reference_codecs()[static_cast<std::size_t>(type)];
    std::vector<std::byte> encoded(bytes.size());
    codec.encode(values.data(), encoded.data(), values.size());
    codec.decode(encoded.data(), values.data(), values.size());
    bytes.upload(encoded);
  }
  Floats values;
  DeviceArray<std::byte> bytes;
};

// The entry that the row completes; zeros: none.
std::vector<double> plain_entry(const CompressorShape& shape,
                                const WindowBatch& batch,
                                const Floats& cache,
                                std::int64_t row) {
  std::vector<double> entry(static_cast<std::size_t>(shape.head_dim));
  const std::int64_t end = batch.position(row) + 1;
  if (end % shape.rate != 0) return entry;
  const std::int64_t begin = end - shape.rate;
  const std::int64_t first = shape.overlaps ? std::max<std::int64_t>(0, begin - shape.rate) : begin;
  const std::int64_t width = shape.row_size();
  for (std::int64_t col = 0; col < shape.head_dim; ++col) {
    double sum = 0;
    double weights = 0;
    for (std::int64_t position = first; position < end; ++position) {
      const std::int64_t at = batch.slot(row, position) * 2 * width + col +
                              (shape.overlaps && position >= begin ? shape.head_dim : 0);
      const double weight = std::exp(double{cache[static_cast<std::size_t>(at + width)]});
      sum += weight * cache[static_cast<std::size_t>(at)];
      weights += weight;
    }
    entry[static_cast<std::size_t>(col)] = sum / weights;
  }
  return entry;
}

TEST_F(WindowKernels, EntriesMatchTheFormula) {
  const WindowBatch batch(300, 40, 128);
  for (const DType type : {DType::F32, DType::F16, DType::BF16}) {
    for (const CompressorShape& shape :
         {CompressorShape{.head_dim = 64, .rate = 4, .overlaps = true},
          CompressorShape{.head_dim = 41, .rate = 4}, CompressorShape{.head_dim = 512, .rate = 128},
          CompressorShape{.head_dim = 33, .rate = 5, .overlaps = true},
          CompressorShape{.head_dim = 8, .rate = 1}}) {
      const std::int64_t width = shape.row_size();
      const RandomCache cache(type, batch.num_slots() * 2 * width, 5, 2.0F);
      const DeviceArray<float> sums(static_cast<std::size_t>(batch.num_rows() * shape.head_dim));
      const DeviceArray<std::int32_t> positions(static_cast<std::size_t>(batch.num_rows()));
      compress_windows(
          shape, batch.get(),
          {.dtype = type, .data = cache.bytes.get(), .key_size = width, .value_size = width},
          {sums.get(), shape.head_dim}, positions.get(), nullptr);
      std::vector<double> want;
      Ints begins;
      for (std::int64_t row = 0; row < batch.num_rows(); ++row) {
        const std::vector<double> entry = plain_entry(shape, batch, cache.values, row);
        want.insert(want.end(), entry.begin(), entry.end());
        const std::int64_t end = batch.position(row) + 1;
        begins.push_back(end % shape.rate == 0 ? static_cast<std::int32_t>(end - shape.rate) : 0);
      }
      EXPECT_LT(relative_error(sums.download(), want), 1e-5)
          << name(type) << ' ' << shape.head_dim << ' ' << shape.rate;
      EXPECT_EQ(positions.download(), begins) << shape.rate;
    }
  }
}

// The first window has none before it to overlap with.
TEST_F(WindowKernels, FirstWindows) {
  const WindowBatch batch(9, 9, 4);
  const CompressorShape shape = {.head_dim = 40, .rate = 4, .overlaps = true};
  const RandomCache cache(DType::F32, batch.num_slots() * 160, 6, 1.0F);
  const DeviceArray<float> sums(10 * 40);
  const DeviceArray<std::int32_t> positions(10);
  compress_windows(
      shape, batch.get(),
      {.dtype = DType::F32, .data = cache.bytes.get(), .key_size = 80, .value_size = 80},
      {sums.get(), 40}, positions.get(), nullptr);
  std::vector<double> want;
  for (std::int64_t row = 0; row < 10; ++row) {
    const std::vector<double> entry = plain_entry(shape, batch, cache.values, row);
    want.insert(want.end(), entry.begin(), entry.end());
  }
  EXPECT_LT(relative_error(sums.download(), want), 1e-5);
}

TEST_F(WindowKernels, StoresProjectionsAndBiasedLogits) {
  const WindowBatch batch(30, 6, 19);
  const CompressorShape shape = {.head_dim = 150, .rate = 4, .overlaps = true};
  const std::int64_t width = shape.row_size();
  const Floats projection = Random(1).floats(7 * width);
  const Floats logits = Random(2).floats(7 * width);
  const Floats bias = Random(3).floats(4 * width);
  Ints slots;
  for (std::int64_t row = 0; row < 7; ++row)
    slots.push_back(row == 2 ? -1
                             : static_cast<std::int32_t>(batch.slot(row, batch.position(row))));
  const DeviceArray<float> projections(projection);
  const DeviceArray<float> logit_data(logits);
  const DeviceArray<float> biases(bias);
  const DeviceArray<std::int32_t> slot_data(slots);
  const DeviceArray<float> cache(static_cast<std::size_t>(batch.num_slots() * 2 * width));
  store_windows(shape, batch.get(),
                {.projection = {projections.get(), width},
                 .logits = {logit_data.get(), width},
                 .bias = biases.get(),
                 .slots = slot_data.get()},
                {.dtype = DType::F32, .data = cache.get(), .key_size = width, .value_size = width},
                nullptr);
  Floats want(cache.size(), std::bit_cast<float>(0xffffffffU));
  for (std::int64_t row = 0; row < 7; ++row) {
    if (row == 2) continue;
    for (std::int64_t i = 0; i < width; ++i) {
      const auto at = static_cast<std::size_t>(row * width + i);
      const auto to =
          static_cast<std::size_t>(slots[static_cast<std::size_t>(row)] * 2 * width + i);
      want[to] = projection[at];
      want[to + static_cast<std::size_t>(width)] =
          logits[at] + bias[static_cast<std::size_t>(batch.position(row) % 4 * width + i)];
    }
  }
  EXPECT_EQ(testing::num_different(cache.download(), want), 0U);
}

// What a row attends to: (is an entry, its position in that cache).
std::vector<std::pair<bool, std::int64_t>> plain_list(const AttendedShape& shape,
                                                      std::int64_t position,
                                                      const std::int32_t* selected) {
  std::vector<std::pair<bool, std::int64_t>> list;
  const std::int64_t entries = shape.rate == 0 ? 0 : (position + 1) / shape.rate;
  for (std::int64_t i = 0; i < (shape.top_k > 0 ? shape.top_k : entries); ++i) {
    if (selected != nullptr && selected[i] < 0) break;
    list.emplace_back(true, ((selected == nullptr ? i : selected[i]) + 1) * shape.rate - 1);
  }
  for (std::int64_t p = std::max<std::int64_t>(0, position + 1 - shape.window); p <= position; ++p)
    list.emplace_back(false, p);
  return list;
}

// Every second entry, as many as are visible.
Ints select_some(const AttendedShape& shape, const WindowBatch& batch) {
  Ints selected;
  for (std::int64_t row = 0; row < batch.num_rows(); ++row) {
    const std::int64_t entries = (batch.position(row) + 1) / shape.rate;
    const std::int64_t step = entries >= 2 * shape.top_k ? 2 : 1;
    for (std::int64_t i = 0; i < shape.top_k; ++i)
      selected.push_back(i < entries ? static_cast<std::int32_t>(i * step) : -1);
  }
  return selected;
}

void expect_gathered(const AttendedShape& shape, std::int64_t cols) {
  const WindowBatch batch(150, 6, 3);
  const auto count = static_cast<std::size_t>(batch.num_slots() * cols);
  std::vector<std::uint16_t> tokens(count);
  std::iota(tokens.begin(), tokens.end(), std::uint16_t{1});
  std::vector<std::uint16_t> entries(count);
  std::iota(entries.begin(), entries.end(), std::uint16_t{30000});
  const Ints chosen = shape.top_k > 0 ? select_some(shape, batch) : Ints{};
  const DeviceArray<std::uint16_t> token_data(tokens);
  const DeviceArray<std::uint16_t> entry_data(entries);
  const DeviceArray<std::int32_t> selected(chosen);
  const std::int64_t stride = max_attended(shape, batch.get());
  constexpr std::int64_t kRows = 6;  // rows 1 to 6
  const DeviceArray<std::uint16_t> data(static_cast<std::size_t>(kRows * stride * cols));
  const DeviceArray<std::int32_t> arrays(3 * kRows);
  gather_attended(shape, batch.get(),
                  {.tokens = {.dtype = DType::F16, .data = token_data.get(), .key_size = cols},
                   .entries = {.dtype = DType::F16, .data = entry_data.get(), .key_size = cols}},
                  shape.top_k > 0 ? selected.get() : nullptr,
                  {.data = data.get(), .arrays = arrays.get()}, {.first = 1, .count = kRows},
                  nullptr);
  const std::vector<std::uint16_t> got = data.download();
  const Ints lengths = arrays.download();
  for (std::int64_t row = 1; row <= kRows; ++row) {
    const std::int32_t* own = shape.top_k > 0 ? chosen.data() + row * shape.top_k : nullptr;
    const auto list = plain_list(shape, batch.position(row), own);
    EXPECT_EQ(lengths[static_cast<std::size_t>(row - 1)], row - 1);
    EXPECT_EQ(lengths[static_cast<std::size_t>(kRows + row - 1)], 1);
    ASSERT_EQ(lengths[static_cast<std::size_t>(2 * kRows + row - 1)],
              static_cast<std::int32_t>(list.size()));
    for (std::size_t i = 0; i < list.size(); ++i) {
      const auto& [is_entry, position] = list[i];
      for (std::int64_t col = 0; col < cols; ++col) {
        const auto at = static_cast<std::size_t>(
            ((row - 1) * stride + static_cast<std::int64_t>(i)) * cols + col);
        const auto from = static_cast<std::size_t>(batch.slot(row, position) * cols + col);
        ASSERT_EQ(got[at], (is_entry ? entries : tokens)[from]) << row << ' ' << i << ' ' << col;
      }
    }
  }
}

TEST_F(WindowKernels, GathersEntriesAndTheWindow) {
  for (const std::int64_t cols : {24, 9}) {
    expect_gathered({.window = 10}, cols);
    expect_gathered({.window = 10, .rate = 4}, cols);
    expect_gathered({.window = 1000, .rate = 64}, cols);
    expect_gathered({.window = 10, .rate = 4, .top_k = 6}, cols);
    expect_gathered({.window = 16, .rate = 4, .top_k = 100}, cols);
  }
}

}  // namespace
}  // namespace graft::kernels::cuda
