// Every instruction set matches the reference bit for bit, for every type, decoding and encoding.

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "graft/kernels/cpu/table.h"

namespace graft::kernels::cpu {
namespace {

constexpr std::size_t kNumValues = std::size_t{256} * 24;

using Param = std::tuple<const KernelTable*, DType>;

class CodecParity : public testing::TestWithParam<Param> {
 protected:
  const quant::Codec& codec() const {
    return std::get<0>(GetParam())->codecs[static_cast<std::size_t>(type())];
  }
  const quant::Codec& reference() const {
    return quant::reference_codecs()[static_cast<std::size_t>(type())];
  }
  DType type() const { return std::get<1>(GetParam()); }
};

bool same_bytes(const void* a, const void* b, std::size_t n) {
  return std::memcmp(a, b, n) == 0;
}

TEST_P(CodecParity, DecodesRandomBytesLikeTheReference) {
  std::mt19937 random(7);
  std::vector<std::byte> bytes(bytes_of(type(), kNumValues));
  for (std::byte& b : bytes)
    b = static_cast<std::byte>(random());
  std::vector<float> want(kNumValues);
  std::vector<float> got(kNumValues);
  reference().decode(bytes.data(), want.data(), kNumValues);
  codec().decode(bytes.data(), got.data(), kNumValues);
  for (std::size_t i = 0; i < kNumValues; ++i) {
    // The sign and payload of a NaN produced by arithmetic depend on the compiler.
    if (std::isnan(want[i]) && std::isnan(got[i])) continue;
    ASSERT_TRUE(same_bytes(&want[i], &got[i], sizeof(float)))
        << got[i] << ' ' << want[i] << " at " << i;
  }
}

// Blocks of many magnitudes, with zeros, equal values, NaN, infinity and outliers.
std::vector<float> encoder_inputs() {
  std::mt19937 random(11);
  std::normal_distribution<float> normal;
  std::vector<float> values(kNumValues);
  for (std::size_t i = 0; i < kNumValues; ++i) {
    const std::size_t block = i / 256;
    const float scale = std::ldexp(1.0F, static_cast<int>(block * 5 % 60) - 36);
    values[i] =
        scale * normal(random) * (i % 91 == 3 ? 20.0F : 1.0F) + (block % 4 == 1 ? scale : 0.0F);
    if (block == 5) values[i] = 0.0F;
    if (block == 6) values[i] = i / 16 % 2 == 0 ? 0.0F : 1.0F;
    if (block == 7) values[i] = -3.0F;
  }
  values[256 * 9 + 30] = std::numeric_limits<float>::quiet_NaN();
  values[256 * 10 + 77] = std::numeric_limits<float>::infinity();
  values[256 * 11 + 200] = -1e30F;
  values[256 * 12 + 5] = 1e-42F;
  return values;
}

class EncoderParity : public CodecParity {};

TEST_P(EncoderParity, EncodesLikeTheReference) {
  ASSERT_NE(codec().encode, nullptr);
  const std::vector<float> values = encoder_inputs();
  std::vector<std::byte> want(bytes_of(type(), kNumValues));
  std::vector<std::byte> got(want.size());
  reference().encode(values.data(), want.data(), kNumValues);
  codec().encode(values.data(), got.data(), kNumValues);
  const auto block_bytes = static_cast<std::size_t>(info(type()).block_bytes);
  for (std::size_t i = 0; i < want.size(); ++i) {
    ASSERT_EQ(got[i], want[i]) << "byte " << i % block_bytes << " of block " << i / block_bytes;
  }
}

std::vector<DType> all_types() {
  std::vector<DType> types;
  for (const DTypeInfo& row : kDTypes)
    types.push_back(row.type);
  return types;
}

std::vector<DType> types_with_encoder() {
  std::vector<DType> types;
  for (const DType type : all_types()) {
    if (quant::reference_codecs()[static_cast<std::size_t>(type)].encode != nullptr) {
      types.push_back(type);
    }
  }
  return types;
}

std::vector<const KernelTable*> all_tables() {
  const auto tables = runnable_kernels();
  return {tables.begin(), tables.end()};
}

std::string param_name(const testing::TestParamInfo<Param>& param) {
  return std::string(std::get<0>(param.param)->isa) + "_" +
         std::string(name(std::get<1>(param.param)));
}

INSTANTIATE_TEST_SUITE_P(Isa,
                         CodecParity,
                         testing::Combine(testing::ValuesIn(all_tables()),
                                          testing::ValuesIn(all_types())),
                         param_name);
INSTANTIATE_TEST_SUITE_P(Isa,
                         EncoderParity,
                         testing::Combine(testing::ValuesIn(all_tables()),
                                          testing::ValuesIn(types_with_encoder())),
                         param_name);

TEST(KernelTables, ScalarIsAlwaysRunnableAndFirst) {
  ASSERT_FALSE(runnable_kernels().empty());
  EXPECT_EQ(runnable_kernels().front()->isa, "scalar");
}

}  // namespace
}  // namespace graft::kernels::cpu
