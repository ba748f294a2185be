#include "graft/testing/parity/weights.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <span>
#include <utility>

#include "graft/quant/codec.h"
#include "graft/quant/fp8_scale.h"
#include "graft/tensor/buffer.h"
#include "graft/testing/ops.h"

namespace graft::ops::testing {
namespace {

// Quantized values per dtype in the pool that weights are drawn from, because quantizing is slow.
constexpr std::int64_t kPoolValues = 16384;
// Values drawn at a time: full blocks of the small block types.
constexpr int kMinDrawValues = 32;
constexpr float kValueSize = 0.1F;
// Random blocks outside these limits are redrawn, so that activations have realistic magnitudes.
constexpr float kMaxRandomValue = 0.5F;
constexpr float kMinRandomPeak = 0.01F;
constexpr std::int64_t kScaleTile = 128;

const quant::Codec& codec(DType dtype) {
  return quant::reference_codecs()[static_cast<std::size_t>(dtype)];
}

unsigned seed_of(const std::string& name) {
  unsigned seed = 2166136261U;  // FNV-1a: std::hash may differ between libraries
  for (const char c : name)
    seed = (seed ^ static_cast<unsigned char>(c)) * 16777619U;
  return seed;
}

bool is_sensible(std::span<const float> values) {
  float peak = 0;
  for (const float value : values) {
    if (!std::isfinite(value)) return false;
    peak = std::max(peak, std::abs(value));
  }
  return peak >= kMinRandomPeak && peak <= kMaxRandomValue;
}

void draw_block(DType dtype, Random& random, std::byte* block) {
  std::vector<float> values(static_cast<std::size_t>(info(dtype).block_elems));
  do {
    for (int i = 0; i < info(dtype).block_bytes; ++i)
      block[i] = static_cast<std::byte>(random.below(256));
    codec(dtype).decode(block, values.data(), values.size());
  } while (!is_sensible(values));
}

std::vector<std::byte> make_pool(DType dtype) {
  Random random(static_cast<unsigned>(dtype) + 1);
  std::vector<std::byte> pool(bytes_of(dtype, kPoolValues));
  if (codec(dtype).encode != nullptr) {
    const Floats values = random.floats(kPoolValues, kValueSize);
    codec(dtype).encode(values.data(), pool.data(), values.size());
    return pool;
  }
  const auto block_bytes = static_cast<std::size_t>(info(dtype).block_bytes);
  for (std::size_t at = 0; at < pool.size(); at += block_bytes)
    draw_block(dtype, random, pool.data() + at);
  return pool;
}

const std::vector<std::byte>& pool_of(DType dtype) {
  static std::map<DType, std::vector<std::byte>> pools;
  const auto [found, is_new] = pools.try_emplace(dtype);
  if (is_new) found->second = make_pool(dtype);
  return found->second;
}

std::shared_ptr<const WeightScale> random_scale(const Weight& weight, Random& random) {
  const std::vector<std::int64_t> shape = {(weight.rows() + kScaleTile - 1) / kScaleTile,
                                           (weight.cols() + kScaleTile - 1) / kScaleTile};
  auto scale = std::make_shared<WeightScale>();
  scale->layout = quant::ScaleLayout::fit(weight.shape, shape, kScaleTile, kScaleTile);
  scale->values = random.floats(scale->layout.num_scales(), 0.5F, 1.0F);
  return scale;
}

Weight with_bytes(std::string name,
                  DType dtype,
                  std::vector<std::int64_t> shape,
                  std::span<const std::byte> bytes) {
  auto buffer = std::make_shared<Buffer>(bytes.size());
  std::memcpy(buffer->data(), bytes.data(), bytes.size());
  Weight weight = {.name = std::move(name), .dtype = dtype, .shape = std::move(shape)};
  weight.data = buffer->data();
  weight.owned = std::move(buffer);
  return weight;
}

}  // namespace

const std::vector<DType>& weight_types() {
  static const std::vector<DType> types = [] {
    std::vector<DType> found;
    for (const DTypeInfo& row : kDTypes) {
      const bool has_blocks = is_quantized(row.type) && codec(row.type).decode != nullptr;
      if (codec(row.type).encode != nullptr || has_blocks) found.push_back(row.type);
    }
    return found;
  }();
  return types;
}

Weight random_matrix(const std::string& name, std::int64_t rows, std::int64_t cols, DType dtype) {
  const std::vector<std::byte>& pool = pool_of(dtype);
  const std::size_t draw_bytes = bytes_of(dtype, std::max(info(dtype).block_elems, kMinDrawValues));
  const auto num_draws = static_cast<std::int64_t>(pool.size() / draw_bytes);
  Random random(seed_of(name));
  std::vector<std::byte> bytes(bytes_of(dtype, rows * cols));
  for (std::size_t at = 0; at < bytes.size(); at += draw_bytes) {
    const auto drawn = static_cast<std::size_t>(random.below(num_draws));
    std::memcpy(bytes.data() + at, pool.data() + drawn * draw_bytes,
                std::min(draw_bytes, bytes.size() - at));
  }
  Weight weight = with_bytes(name, dtype, {rows, cols}, bytes);
  if (dtype == DType::F8_E4M3) weight.scale = random_scale(weight, random);
  return weight;
}

Weight random_vector(const std::string& name, std::int64_t count, float size, float center) {
  const Floats values = Random(seed_of(name)).floats(count, size, center);
  return with_bytes(name, DType::F32, {count}, std::as_bytes(std::span(values)));
}

Weight decoded(const Weight& weight) {
  const Floats values = weight.decode();
  return with_bytes(weight.name, DType::F32, weight.shape, std::as_bytes(std::span(values)));
}

}  // namespace graft::ops::testing
