#include "graft/kernels/cuda/attention/kv_cache.h"

#include <cstring>
#include <vector>

#include "graft/testing/cuda/device.cuh"

namespace graft::kernels::cuda {
namespace {

using testing::DeviceArray;
using testing::Floats;
using testing::Random;

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

INSTANTIATE_TEST_SUITE_P(Types,
                         KvCacheKernels,
                         ::testing::Values(DType::F32, DType::F16, DType::BF16),
                         [](const auto& param) { return std::string(name(param.param)); });

}  // namespace
}  // namespace graft::kernels::cuda
