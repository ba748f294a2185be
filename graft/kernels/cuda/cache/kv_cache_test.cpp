#include "graft/kernels/cuda/cache/kv_cache.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "graft/kernels/cuda/cache/copy_blocks.h"
#include "graft/testing/cuda/device.cuh"

namespace graft::kernels::cuda {
namespace {

using testing::DeviceArray;
using testing::Floats;
using testing::Random;

class QuantizedRows : public testing::GpuTest {};
class KvCacheKernels : public testing::GpuTest, public ::testing::WithParamInterface<DType> {};

// Five rows, one with slot -1, into a cache of 4 blocks of 3 tokens; keys are a column range of
// wider rows.
void expect_written(DType type,
                    std::int64_t key_size,
                    std::int64_t value_size,
                    std::int64_t key_stride) {
  const std::size_t value_bytes = bytes_of(type, 1);
  const std::int64_t row_elems = key_size + value_size;
  const Floats keys = Random(1).floats(5 * key_stride, 100.0F);
  const Floats values = Random(2).floats(5 * value_size, 100.0F);
  const std::vector<std::int32_t> slots = {11, 0, -1, 4, 5};
  const DeviceArray<float> key_data(keys);
  const DeviceArray<float> value_data(values);
  const DeviceArray<std::int32_t> slot_data(slots);
  const std::size_t row_bytes = static_cast<std::size_t>(row_elems) * value_bytes;
  const DeviceArray<std::byte> storage(12 * row_bytes);
  const CacheRows cache = {
      .dtype = type, .data = storage.get(), .key_size = key_size, .value_size = value_size};
  write_cache(cache, {key_data.get(), key_stride}, {value_data.get(), value_size}, slot_data.get(),
              5, nullptr);

  std::vector<std::byte> want(12 * row_bytes, std::byte{0xff});
  const auto encode = quant::reference_codecs()[static_cast<std::size_t>(type)].encode;
  for (std::size_t row = 0; row < 5; ++row) {
    if (slots[row] < 0) continue;
    std::byte* to = want.data() + static_cast<std::size_t>(slots[row]) * row_bytes;
    encode(keys.data() + row * static_cast<std::size_t>(key_stride), to,
           static_cast<std::size_t>(key_size));
    encode(values.data() + row * static_cast<std::size_t>(value_size),
           to + static_cast<std::size_t>(key_size) * value_bytes,
           static_cast<std::size_t>(value_size));
  }
  EXPECT_EQ(storage.download(), want);
}

TEST_P(KvCacheKernels, WritesRowsAtTheirSlots) {
  for (const std::int64_t value_size : {0, 5})
    expect_written(GetParam(), 7, value_size, 9);
}

// Four values per thread; the last size needs several blocks per row.
TEST_P(KvCacheKernels, WritesVectorized) {
  for (const std::int64_t value_size : {0, 4, 1024})
    expect_written(GetParam(), 8, value_size, 12);
}

// Types with a scale per 32 columns: what is read back is within half a step of the scale, or, for
// the sign that Q4_0 has fewer codes of, within a whole one.
TEST_F(QuantizedRows, AreNearTheirValues) {
  constexpr std::int64_t kKeys = 96;
  constexpr std::int64_t kCols = 160;
  for (const auto& [type, error] :
       {std::pair{DType::Q8_0, 0.51F / 127}, std::pair{DType::Q4_0, 1.01F / 8}}) {
    const Floats x = Random(3).floats(3 * kCols, 100.0F);
    const DeviceArray<float> values(x);
    const DeviceArray<std::int32_t> slots(std::vector<std::int32_t>{2, -1, 0});
    const std::size_t row_bytes = bytes_of(type, kCols);
    const DeviceArray<std::byte> rows(std::vector<std::byte>(3 * row_bytes, std::byte{7}));
    write_cache({.dtype = type, .data = rows.get(), .key_size = kKeys, .value_size = kCols - kKeys},
                {values.get(), kCols}, {values.get() + kKeys, kCols}, slots.get(), 3, nullptr);
    const std::vector<std::byte> stored = rows.download();
    for (std::size_t i = row_bytes; i < 2 * row_bytes; ++i)
      ASSERT_EQ(stored[i], std::byte{7}) << "of no slot";
    for (const auto& [row, slot] : {std::pair<std::size_t, std::size_t>{0, 2}, {2, 0}}) {
      Floats got(kCols);
      decode_cache_row(type, kCols, stored.data() + slot * row_bytes, 0, got);
      for (std::size_t block = 0; block < kCols; block += 32) {
        float max = 0;
        for (std::size_t i = block; i < block + 32; ++i)
          max = std::max(max, std::abs(x[row * kCols + i]));
        for (std::size_t i = block; i < block + 32; ++i)
          EXPECT_NEAR(got[i], x[row * kCols + i], max * (error + 0x1p-11F)) << name(type);
      }
      Floats part(40);
      decode_cache_row(type, kCols, stored.data() + slot * row_bytes, 30, part);
      EXPECT_TRUE(std::equal(part.begin(), part.end(), got.begin() + 30));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types,
                         KvCacheKernels,
                         ::testing::Values(DType::F32, DType::F16, DType::BF16, DType::F8_E4M3),
                         [](const auto& param) { return std::string(name(param.param)); });

class CopyBlocks : public testing::GpuTest {};

// Two layers with blocks of 48 and 80 bytes, or of odd sizes; the gathered blocks are scattered to
// other ones.
TEST_F(CopyBlocks, GathersAndScatters) {
  for (const auto& [first, second] : {std::pair<std::size_t, std::size_t>{48, 80}, {7, 30}}) {
    constexpr std::size_t kBlocks = 5;
    std::vector<std::byte> layers[2];
    for (std::size_t i = 0; i < kBlocks * first; ++i)
      layers[0].push_back(static_cast<std::byte>(i * 7 + 1));
    for (std::size_t i = 0; i < kBlocks * second; ++i)
      layers[1].push_back(static_cast<std::byte>(i * 13 + 5));
    const DeviceArray<std::byte> on_gpu[2] = {DeviceArray<std::byte>(layers[0]),
                                              DeviceArray<std::byte>(layers[1])};
    const std::vector<CacheBlockPart> parts = {
        {.blocks = on_gpu[0].get(), .bytes = first, .offset = 0},
        {.blocks = on_gpu[1].get(), .bytes = second, .offset = first}};
    const DeviceArray<CacheBlockPart> parts_on_gpu(parts);
    const std::size_t slot = 256;
    const DeviceArray<std::byte> gathered(std::vector<std::byte>(2 * slot));
    CopyBlocksJob job = {.parts = parts_on_gpu.get(), .num_parts = 2, .num_blocks = 2};
    for (std::size_t i = 0; i < 2; ++i) {
      job.blocks[i] = i == 0 ? 3 : 0;
      job.gathered[i] = gathered.get() + i * slot;
    }
    gather_blocks(job, nullptr);
    const std::vector<std::byte> copies = gathered.download();
    for (std::size_t i = 0; i < 2; ++i) {
      const auto block = static_cast<std::size_t>(job.blocks[i]);
      EXPECT_EQ(std::memcmp(copies.data() + i * slot, layers[0].data() + block * first, first), 0);
      EXPECT_EQ(
          std::memcmp(copies.data() + i * slot + first, layers[1].data() + block * second, second),
          0);
    }
    job.blocks[0] = 4;
    job.blocks[1] = 1;
    scatter_blocks(job, nullptr);
    std::memcpy(layers[0].data() + 4 * first, layers[0].data() + 3 * first, first);
    std::memcpy(layers[0].data() + first, layers[0].data(), first);
    std::memcpy(layers[1].data() + 4 * second, layers[1].data() + 3 * second, second);
    std::memcpy(layers[1].data() + second, layers[1].data(), second);
    EXPECT_EQ(on_gpu[0].download(), layers[0]);
    EXPECT_EQ(on_gpu[1].download(), layers[1]);
  }
}

}  // namespace
}  // namespace graft::kernels::cuda
