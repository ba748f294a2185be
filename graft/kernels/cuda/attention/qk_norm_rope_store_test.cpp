#include "graft/kernels/cuda/attention/qk_norm_rope_store.h"

#include <cmath>
#include <string>
#include <vector>

#include "graft/kernels/cuda/elementwise.h"
#include "graft/testing/cuda/device.cuh"

namespace graft::kernels::cuda {
namespace {

using testing::DeviceArray;
using testing::Floats;
using testing::Random;

class QkNormRopeStore : public testing::GpuTest, public ::testing::WithParamInterface<DType> {};

struct Sizes {
  std::int64_t rows = 5;
  std::int64_t heads = 6;
  std::int64_t kv_heads = 3;
  std::int64_t size = 0;
  std::int64_t rotary_dim = 0;
  bool interleaved = false;
  bool norms = true;
  std::int64_t row_padding = 0;  // floats between the rows
  std::int64_t rotate_from = 0;
};

constexpr float kEps = 1e-6F;
constexpr std::int64_t kSlots = 3000;

// Every third row has slot -1 and is not stored.
std::vector<std::int32_t> test_slots(std::int64_t rows) {
  std::vector<std::int32_t> slots;
  for (std::int64_t row = 0; row < rows; ++row)
    slots.push_back(row % 3 == 1 ? -1 : static_cast<std::int32_t>((row * 7 + 5) % kSlots));
  return slots;
}

Floats frequencies(std::int64_t rotary_dim) {
  Floats values;
  for (std::int64_t i = 0; i < rotary_dim / 2; ++i)
    values.push_back(
        std::pow(10000.0F, -2.0F * static_cast<float>(i) / static_cast<float>(rotary_dim)));
  return values;
}

DeviceArray<std::byte> storage_for(const CacheRows& cache) {
  return DeviceArray<std::byte>(bytes_of(cache.dtype, kSlots * cache.row_elems()));
}

// In-place RMS norm of the span's heads.
void norm_heads(const HeadSpan& span, std::int64_t rows) {
  for (std::int64_t row = 0; row < rows; ++row) {
    float* first = span.x.data + row * span.x.stride;
    rms_norm({first, span.head_stride}, span.norm, {first, span.head_stride}, span.num_heads,
             span.size, span.eps, nullptr);
  }
}

// Norm and RoPE with the unfused kernels.
void run_separate_kernels(const HeadSpan& span, const HeadBatch& batch) {
  if (span.norm != nullptr) norm_heads(span, batch.rows);
  if (span.rotates)
    rotate({span.x.data + span.rotate_from, span.x.stride}, batch.rotation, batch.positions,
           batch.rows, {.num_heads = span.num_heads, .head_dim = span.head_stride}, nullptr);
}

void expect_same_bits(DType type, const Sizes& sizes) {
  if (sizes.size % info(type).block_elems != 0) return;
  const std::int64_t stride = sizes.heads * sizes.size + sizes.row_padding;
  const std::int64_t key_size = sizes.kv_heads * sizes.size;
  const Floats queries = Random(1).floats(sizes.rows * stride);
  const Floats keys = Random(2).floats(sizes.rows * key_size);
  const DeviceArray<float> values(Random(3).floats(sizes.rows * key_size));
  const DeviceArray<float> weights(Random(4).floats(2 * sizes.size));
  const DeviceArray<float> inv_freq(frequencies(sizes.rotary_dim));
  const DeviceArray<std::int32_t> positions(Random(5).ints(sizes.rows, 5000));
  const DeviceArray<std::int32_t> slots(test_slots(sizes.rows));
  HeadBatch batch = {.rows = sizes.rows,
                     .rotation = {.rotary_dim = sizes.rotary_dim,
                                  .inv_freq = inv_freq.get(),
                                  .magnitude = 1.25F,
                                  .interleaved = sizes.interleaved},
                     .positions = positions.get(),
                     .cache = {.dtype = type, .key_size = key_size, .value_size = key_size},
                     .slots = slots.get()};
  const auto spans = [&](const DeviceArray<float>& q, const DeviceArray<float>& k) {
    const bool rotates = sizes.rotary_dim > 0;
    const HeadSpan v = {.x = {values.get(), key_size},
                        .num_heads = sizes.kv_heads,
                        .size = sizes.size,
                        .head_stride = sizes.size,
                        .cache_col = key_size};
    HeadSpan of_q = v;
    of_q.x = {q.get(), stride};
    of_q.num_heads = sizes.heads;
    of_q.norm = sizes.norms ? weights.get() : nullptr;
    of_q.eps = kEps;
    of_q.rotates = rotates;
    of_q.rotate_from = sizes.rotate_from;
    of_q.cache_col = -1;
    HeadSpan of_k = of_q;
    of_k.x = {k.get(), key_size};
    of_k.num_heads = sizes.kv_heads;
    of_k.norm = sizes.norms ? weights.get() + sizes.size : nullptr;
    of_k.cache_col = 0;
    return std::vector<HeadSpan>{of_q, of_k, v};
  };

  const DeviceArray<float> want_q(queries);
  const DeviceArray<float> want_k(keys);
  const DeviceArray<std::byte> want = storage_for(batch.cache);
  const std::vector<HeadSpan> want_spans = spans(want_q, want_k);
  run_separate_kernels(want_spans[0], batch);
  run_separate_kernels(want_spans[1], batch);
  batch.cache.data = want.get();
  write_cache(batch.cache, want_spans[1].x, want_spans[2].x, slots.get(), sizes.rows, nullptr);

  const DeviceArray<float> q(queries);
  const DeviceArray<float> k(keys);
  const DeviceArray<std::byte> got = storage_for(batch.cache);
  batch.cache.data = got.get();
  qk_norm_rope_store(spans(q, k), batch, nullptr);
  EXPECT_EQ(q.download(), want_q.download()) << sizes.size;
  EXPECT_EQ(got.download(), want.download()) << sizes.size;
}

TEST_P(QkNormRopeStore, MatchesSeparateKernels) {
  expect_same_bits(GetParam(), {.size = 128, .rotary_dim = 128});
  expect_same_bits(GetParam(), {.size = 128, .rotary_dim = 128, .norms = false});
  expect_same_bits(GetParam(),
                   {.size = 64, .rotary_dim = 32, .interleaved = true, .row_padding = 4});
  expect_same_bits(GetParam(), {.size = 256, .rotary_dim = 64});
  expect_same_bits(GetParam(), {.size = 512, .rotary_dim = 512, .interleaved = true});
  expect_same_bits(GetParam(), {.rows = 1, .size = 80, .rotary_dim = 0});
}

// DeepSeek-V4 rotates the last values of normed heads.
TEST_P(QkNormRopeStore, RotatesTheLastValues) {
  expect_same_bits(GetParam(),
                   {.size = 512, .rotary_dim = 64, .interleaved = true, .rotate_from = 448});
  expect_same_bits(GetParam(), {.size = 71, .rotary_dim = 8, .rotate_from = 63});
}

TEST_P(QkNormRopeStore, OddSizes) {
  expect_same_bits(GetParam(), {.size = 7, .rotary_dim = 6});
  expect_same_bits(GetParam(),
                   {.size = 131, .rotary_dim = 6, .interleaved = true, .row_padding = 1});
  expect_same_bits(GetParam(), {.size = 301, .rotary_dim = 300, .row_padding = 3});
  expect_same_bits(GetParam(), {.size = 128, .rotary_dim = 128, .row_padding = 1});
}

// With this many rows a warp processes several heads.
TEST_P(QkNormRopeStore, ManyRows) {
  expect_same_bits(GetParam(),
                   {.rows = 700, .heads = 5, .kv_heads = 2, .size = 12, .rotary_dim = 8});
}

// MLA: RoPE on the last columns of the query heads; a cache row is a normalized latent followed by
// a rotated key shared by all heads.
TEST_P(QkNormRopeStore, Latents) {
  const std::int64_t rows = 4;
  const std::int64_t rank = 512;
  const std::int64_t rope = 64;
  const std::int64_t query_dim = 192;
  const std::int64_t stride = 3 * query_dim;
  const Floats queries = Random(1).floats(rows * stride);
  const Floats latents = Random(2).floats(rows * (rank + rope));
  const DeviceArray<float> weight(Random(4).floats(rank));
  const DeviceArray<float> inv_freq(frequencies(rope));
  const DeviceArray<std::int32_t> positions(std::vector<std::int32_t>{0, 1, 130, 4095});
  const DeviceArray<std::int32_t> slots(test_slots(rows));
  HeadBatch batch = {.rows = rows,
                     .rotation = {.rotary_dim = rope, .inv_freq = inv_freq.get()},
                     .positions = positions.get(),
                     .cache = {.dtype = GetParam(), .key_size = rank + rope},
                     .slots = slots.get()};
  const auto spans = [&](const DeviceArray<float>& q, const DeviceArray<float>& x) {
    return std::vector<HeadSpan>{
        {.x = {q.get() + query_dim - rope, stride},
         .num_heads = 3,
         .size = rope,
         .head_stride = query_dim,
         .rotates = true},
        {.x = {x.get(), rank + rope},
         .size = rank,
         .norm = weight.get(),
         .eps = kEps,
         .cache_col = 0},
        {.x = {x.get() + rank, rank + rope}, .size = rope, .rotates = true, .cache_col = rank}};
  };
  const DeviceArray<float> want_q(queries);
  const DeviceArray<float> want_x(latents);
  const DeviceArray<std::byte> want = storage_for(batch.cache);
  for (const HeadSpan& span : spans(want_q, want_x))
    run_separate_kernels(span, batch);
  batch.cache.data = want.get();
  write_cache(batch.cache, {want_x.get(), rank + rope}, {}, slots.get(), rows, nullptr);

  const DeviceArray<float> q(queries);
  const DeviceArray<float> x(latents);
  const DeviceArray<std::byte> got = storage_for(batch.cache);
  batch.cache.data = got.get();
  qk_norm_rope_store(spans(q, x), batch, nullptr);
  EXPECT_EQ(q.download(), want_q.download());
  EXPECT_EQ(got.download(), want.download());
}

INSTANTIATE_TEST_SUITE_P(Types,
                         QkNormRopeStore,
                         ::testing::Values(DType::F32,
                                           DType::F16,
                                           DType::BF16,
                                           DType::F8_E4M3,
                                           DType::Q8_0,
                                           DType::Q4_0),
                         [](const auto& param) { return std::string(name(param.param)); });

}  // namespace
}  // namespace graft::kernels::cuda
