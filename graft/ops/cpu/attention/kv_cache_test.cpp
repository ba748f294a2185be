#include <cmath>

#include <gtest/gtest.h>

#include "graft/base/error.h"
#include "graft/ops/builtin_kwargs.h"
#include "graft/quant/codec.h"
#include "graft/testing/ops.h"

namespace graft::ops::cpu {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace)

constexpr std::int64_t kKeySize = 12;
constexpr std::int64_t kValueSize = 8;
constexpr KvCacheParams kParams = {.key_size = kKeySize, .value_size = kValueSize};

TEST(KvCacheCpu, KeepsRowsAtTheirPositionsInShuffledBlocks) {
  TestModel model;
  auto& cache =
      model.add<KvCache>("cpu.kv_cache", "c", kParams, {{"dtype", "bf16"}, {"block_tokens", "3"}});
  cache.allocate(6, 3);
  EXPECT_EQ(cache.num_blocks(), 6);
  EXPECT_EQ(cache.block_tokens(), 3);
  EXPECT_EQ(cache.bytes_per_block(), 3U * 20 * 2);

  // Two sequences; the second has two cached tokens and adds two.
  Batch batch;
  batch.sequences = {
      {.first_row = 0, .num_tokens = 5, .context_len = 5, .block_table = {4, 1}},
      {.first_row = 5, .num_tokens = 2, .context_len = 4, .block_table = {0, 5}},
  };
  Floats keys(7 * kKeySize);
  Floats values(7 * kValueSize);
  std::iota(keys.begin(), keys.end(), 0.0F);  // integers below 256 are exact in bf16
  std::iota(values.begin(), values.end(), 100.0F);
  ThreadPool pool(1);
  Workspace workspace;
  Pass pass = {.batch = batch, .pool = pool, .workspace = workspace};
  cache.write(view(keys, 7, kKeySize), view(values, 7, kValueSize), pass);

  const auto column = [](const Floats& rows, std::int64_t cols, std::int64_t row,
                         std::int64_t col) {
    return rows[static_cast<std::size_t>(row * cols + col)];
  };
  for (const auto& [sequence, position, row] :
       {std::tuple{0, 0, 0}, {0, 2, 2}, {0, 3, 3}, {0, 4, 4}, {1, 2, 5}, {1, 3, 6}}) {
    const SequenceSlice& slice = batch.sequences[static_cast<std::size_t>(sequence)];
    const KvCache::Part part = {
        .begin = position, .end = position + 1, .first_col = 3, .num_cols = 2};
    Floats got(2);
    cache.read_keys(slice, part, got.data());
    EXPECT_EQ(got, (Floats{column(keys, kKeySize, row, 3), column(keys, kKeySize, row, 4)}));
    cache.read_values(slice, part, got.data());
    EXPECT_EQ(got,
              (Floats{column(values, kValueSize, row, 3), column(values, kValueSize, row, 4)}));
  }
}

TEST(KvCacheCpu, QuantizedRowsMatchTheirCodec) {
  for (const char* dtype : {"fp8", "q8_0", "q4_0"}) {
    TestModel model;
    constexpr KvCacheParams kWide = {.key_size = 128, .value_size = 64, .head_size = 32};
    auto& cache = model.add<KvCache>("cpu.kv_cache", "c", kWide, {{"dtype", dtype}});
    cache.allocate(2, 16);
    const auto type = static_cast<std::size_t>(*cache_dtype(dtype));
    EXPECT_EQ(cache.bytes_per_block(), 16 * bytes_of(static_cast<DType>(type), 128 + 64));
    Batch batch;
    batch.sequences = {
        {.first_row = 0, .num_tokens = 20, .context_len = 20, .block_table = {1, 0}}};
    Floats keys(20 * 128);
    Floats values(20 * 64);
    for (std::size_t i = 0; i < keys.size(); ++i)
      keys[i] = std::sin(static_cast<float>(i));
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = std::cos(static_cast<float>(i));
    ThreadPool pool(1);
    Workspace workspace;
    Pass pass = {.batch = batch, .pool = pool, .workspace = workspace};
    cache.write(view(keys, 20, 128), view(values, 20, 64), pass);

    const quant::Codec& codec = quant::reference_codecs()[type];
    const auto through = [&](const float* row) {
      std::vector<std::byte> coded(bytes_of(static_cast<DType>(type), 32));
      Floats out(32);
      codec.encode(row, coded.data(), 32);
      codec.decode(coded.data(), out.data(), 32);
      return out;
    };
    Floats got(32);
    // Position 17 is in the second block; the third head of the keys, the second of the values.
    cache.read_keys(batch.sequences[0], {.begin = 17, .end = 18, .first_col = 64, .num_cols = 32},
                    got.data());
    EXPECT_EQ(got, through(keys.data() + 17 * 128 + 64)) << dtype;
    cache.read_values(batch.sequences[0], {.begin = 17, .end = 18, .first_col = 32, .num_cols = 32},
                      got.data());
    EXPECT_EQ(got, through(values.data() + 17 * 64 + 32)) << dtype;
  }
}

TEST(KvCacheCpu, RejectsHeadsThatAreNotAMultipleOfTheQuantBlock) {
  TestModel model;
  EXPECT_THROW(model.add<KvCache>("cpu.kv_cache", "c", kParams, {{"dtype", "q8_0"}}), Error);
}

TEST(KvCacheCpu, CopiesSavesAndLoadsBlocks) {
  TestModel model;
  auto& cache = model.add<KvCache>("cpu.kv_cache", "c", kParams, {{"dtype", "f32"}});
  cache.allocate(300, 64);
  EXPECT_EQ(cache.block_tokens(), 64);
  EXPECT_EQ(cache.form(), "F32 12+8");
  std::vector<std::byte> block(cache.bytes_per_block());
  for (std::size_t i = 0; i < block.size(); ++i)
    block[i] = static_cast<std::byte>(i);
  cache.load_block(7, block);
  cache.copy_block(7, 299);
  std::vector<std::byte> got(block.size());
  cache.save_block(299, got);
  EXPECT_EQ(got, block);
  // Neighbours of a released block keep their contents.
  cache.load_block(100, block);
  cache.release_blocks(101, 150);
  cache.save_block(100, got);
  EXPECT_EQ(got, block);
  cache.save_block(200, got);
  EXPECT_EQ(got, std::vector<std::byte>(block.size()));
}

TEST(KvCacheCpu, DefaultsToF16InBlocksOf16) {
  TestModel model;
  auto& cache = model.add<KvCache>("cpu.kv_cache", "c", kParams);
  EXPECT_EQ(cache.bytes_per_block(), 16U * 20 * 2);
  EXPECT_EQ(cache.num_blocks(), 0);
  auto& wide = model.add<KvCache>("cpu.kv_cache", "w", kParams, {{"dtype", "F32"}});
  EXPECT_EQ(wide.bytes_per_block(), 16U * 20 * 4);
}

TEST(KvCacheCpu, RejectsUnsupportedDtypesAndBlockSizes) {
  TestModel model;
  const auto make = [&](const std::string& key, const std::string& value) {
    model.add<KvCache>("cpu.kv_cache", "c", kParams, {{key, value}});
  };
  EXPECT_THROW(make("dtype", "q8_0"), Error);
  EXPECT_THROW(make("dtype", "half"), Error);
  EXPECT_THROW(make("block_tokens", "0"), Error);
  EXPECT_THROW(make("block_tokens", "many"), Error);
}

}  // namespace
}  // namespace graft::ops::cpu
