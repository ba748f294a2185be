#include "graft/quant/codec.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "graft/base/error.h"
#include "graft/quant/blocks.h"

namespace graft::quant {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

const Codec& codec(DType type) {
  return reference_codecs()[static_cast<std::size_t>(type)];
}

std::string fixture_path(const std::string& name) {
  return std::string(GRAFT_SOURCE_DIR) + "/tests/fixtures/quant/" + name;
}

std::vector<char> read_fixture(const std::string& name) {
  std::ifstream file(fixture_path(name), std::ios::binary);
  std::vector<char> bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (bytes.empty()) fail(fixture_path(name), ": missing or empty");
  return bytes;
}

std::vector<float> decode(DType type, const std::byte* bytes, std::size_t n) {
  std::vector<float> values(n);
  codec(type).decode(bytes, values.data(), n);
  return values;
}

std::vector<std::byte> encode(DType type, const std::vector<float>& values) {
  std::vector<std::byte> bytes(bytes_of(type, static_cast<std::int64_t>(values.size())));
  codec(type).encode(values.data(), bytes.data(), values.size());
  return bytes;
}

std::vector<float> round_trip(DType type, const std::vector<float>& values) {
  return decode(type, encode(type, values).data(), values.size());
}

bool same_bits_or_both_nan(float a, float b) {
  return (std::isnan(a) && std::isnan(b)) ||
         std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
}

std::string test_name(const testing::TestParamInfo<DType>& param) {
  return std::string(name(param.param));
}

std::vector<DType> types_where(bool (*wanted)(DType)) {
  std::vector<DType> types;
  for (const DTypeInfo& row : kDTypes) {
    if (wanted(row.type)) types.push_back(row.type);
  }
  return types;
}

bool has_fixture(DType type) {
  return is_quantized(type) || type == DType::F16 || type == DType::F8_E4M3 ||
         type == DType::F8_E5M2;
}

bool is_encodable(DType type) {
  return codec(type).encode != nullptr;
}

bool is_encodable_block(DType type) {
  return is_quantized(type) && is_encodable(type);
}

class Decode : public testing::TestWithParam<DType> {};

TEST_P(Decode, MatchesTheFixtureBitForBit) {
  const std::vector<char> file = read_fixture(std::string(name(GetParam())) + ".bin");
  std::uint32_t num_blocks = 0;
  std::memcpy(&num_blocks, file.data(), sizeof(num_blocks));
  const std::size_t n = num_blocks * static_cast<std::size_t>(info(GetParam()).block_elems);
  const std::size_t data_bytes = bytes_of(GetParam(), static_cast<std::int64_t>(n));
  ASSERT_EQ(file.size(), sizeof(num_blocks) + data_bytes + n * sizeof(float));
  std::vector<float> want(n);
  std::memcpy(want.data(), file.data() + sizeof(num_blocks) + data_bytes, n * sizeof(float));
  // One byte off: blocks need no alignment.
  std::vector<std::byte> unaligned(data_bytes + 1);
  std::memcpy(unaligned.data() + 1, file.data() + sizeof(num_blocks), data_bytes);
  const std::vector<float> got = decode(GetParam(), unaligned.data() + 1, n);
  for (std::size_t i = 0; i < n; ++i) {
    ASSERT_TRUE(same_bits_or_both_nan(got[i], want[i]))
        << got[i] << " not " << want[i] << " at " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Types, Decode, testing::ValuesIn(types_where(has_fixture)), test_name);

template <class T>
void expect_numbers(DType type, const std::vector<T>& stored, const std::vector<float>& want) {
  const auto* bytes = reinterpret_cast<const std::byte*>(stored.data());
  EXPECT_EQ(decode(type, bytes, stored.size()), want) << name(type);
}

TEST(DecodeNumbers, EveryIntegerAndFloatType) {
  expect_numbers<double>(DType::F64, {1.5, -1e300, 0.1}, {1.5F, -kInf, 0.1F});
  expect_numbers<float>(DType::F32, {1.5F, -kInf}, {1.5F, -kInf});
  expect_numbers<std::uint16_t>(DType::BF16, {0x3fc0, 0xff80, 0x0001}, {1.5F, -kInf, 0x1p-133F});
  expect_numbers<std::int64_t>(DType::I64, {-5, std::int64_t{1} << 40}, {-5.0F, 0x1p40F});
  expect_numbers<std::int32_t>(DType::I32, {-5, 16777217}, {-5.0F, 16777216.0F});
  expect_numbers<std::int16_t>(DType::I16, {-5, 32767}, {-5.0F, 32767.0F});
  expect_numbers<std::int8_t>(DType::I8, {-128, 127}, {-128.0F, 127.0F});
  expect_numbers<std::uint64_t>(DType::U64, {~std::uint64_t{0}, 7}, {0x1p64F, 7.0F});
  expect_numbers<std::uint32_t>(DType::U32, {0xffffffffU, 7}, {0x1p32F, 7.0F});
  expect_numbers<std::uint16_t>(DType::U16, {65535, 7}, {65535.0F, 7.0F});
  expect_numbers<std::uint8_t>(DType::U8, {255, 7}, {255.0F, 7.0F});
  expect_numbers<std::uint8_t>(DType::Bool, {0, 1, 2}, {0.0F, 1.0F, 1.0F});
}

TEST(Codecs, EveryTypeDecodes) {
  for (const DTypeInfo& row : kDTypes)
    EXPECT_NE(codec(row.type).decode, nullptr) << row.name;
}

TEST(EncodeFloats, EveryCodeRoundTrips) {
  for (const DType type : {DType::F16, DType::BF16, DType::F8_E4M3, DType::F8_E5M2}) {
    const auto width = static_cast<std::size_t>(info(type).block_bytes);
    const std::size_t num_codes = width == 1 ? 256 : 65536;
    std::vector<std::byte> codes(num_codes * width);
    for (std::size_t c = 0; c < num_codes; ++c)
      std::memcpy(&codes[c * width], &c, width);
    const std::vector<float> values = decode(type, codes.data(), num_codes);
    const std::vector<std::byte> again = encode(type, values);
    for (std::size_t c = 0; c < num_codes; ++c) {
      if (std::isnan(values[c])) continue;  // signalling NaNs encode as quiet ones
      EXPECT_EQ(std::memcmp(&again[c * width], &codes[c * width], width), 0) << name(type) << c;
    }
  }
}

// The nearest finite value by exhaustive search, ties to the even code.
float nearest_by_search(const std::vector<float>& finite, float value) {
  value = std::min(value, finite.back());
  double best = std::numeric_limits<double>::infinity();
  float found = 0;
  for (std::size_t code = 0; code < finite.size(); ++code) {
    const double error = std::abs(static_cast<double>(finite[code]) - value);
    if (error < best || (error == best && code % 2 == 0)) {
      best = error;
      found = finite[code];
    }
  }
  return found;
}

TEST(EncodeFloats, F8RoundsToTheNearestEvenAndSaturates) {
  for (const DType type : {DType::F8_E4M3, DType::F8_E5M2}) {
    const int num_finite = type == DType::F8_E4M3 ? 127 : 124;  // non-negative finite codes
    std::vector<std::byte> codes;
    for (int c = 0; c < num_finite; ++c)
      codes.push_back(static_cast<std::byte>(c));
    const std::vector<float> finite = decode(type, codes.data(), codes.size());
    std::vector<float> inputs = {0.0F, 1e-30F, 1e-45F, 3e38F, finite.back() * 1.5F};
    for (std::size_t i = 1; i < finite.size(); ++i) {
      const float middle = 0.5F * (finite[i - 1] + finite[i]);
      for (const float x : {middle, std::nextafter(middle, 0.0F), std::nextafter(middle, kInf)}) {
        inputs.push_back(x);
      }
    }
    const std::vector<float> got = round_trip(type, inputs);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      EXPECT_EQ(got[i], nearest_by_search(finite, inputs[i])) << name(type) << " of " << inputs[i];
    }
  }
}

TEST(EncodeFloats, SpecialValues) {
  const std::vector<float> inputs = {kInf,     -kInf,    kNaN,    -0.0F,
                                     65519.9F, 65520.0F, 5.9e-8F, 2.9e-8F};
  const std::vector<float> f16 = round_trip(DType::F16, inputs);
  EXPECT_EQ(f16[0], kInf);
  EXPECT_EQ(f16[1], -kInf);
  EXPECT_TRUE(std::isnan(f16[2]));
  EXPECT_TRUE(f16[3] == 0.0F && std::signbit(f16[3]));
  EXPECT_EQ(f16[4], 65504.0F);
  EXPECT_EQ(f16[5], kInf);
  EXPECT_EQ(f16[6], 0x1p-24F);
  EXPECT_EQ(f16[7], 0.0F);
  const std::vector<float> e4m3 = round_trip(DType::F8_E4M3, inputs);
  EXPECT_EQ(e4m3[0], 448.0F);
  EXPECT_TRUE(std::isnan(e4m3[2]));
  const std::vector<float> e5m2 = round_trip(DType::F8_E5M2, inputs);
  EXPECT_EQ(e5m2[0], kInf);
  EXPECT_TRUE(std::isnan(e5m2[2]));
  EXPECT_EQ(e5m2[5], 57344.0F);
  const std::vector<float> bf16 = round_trip(
      DType::BF16, {kNaN, std::bit_cast<float>(0x7f800001U), std::bit_cast<float>(0x3f808000U),
                    std::bit_cast<float>(0x3f818000U), 3.4e38F});
  EXPECT_TRUE(std::isnan(bf16[0]) && std::isnan(bf16[1]));
  EXPECT_EQ(bf16[2], 1.0F);                               // tie to even
  EXPECT_EQ(bf16[3], std::bit_cast<float>(0x3f820000U));  // tie to even, upwards
  EXPECT_EQ(bf16[4], kInf);
}

class Encode : public testing::TestWithParam<DType> {};

struct Inputs {
  std::map<std::string, std::vector<float>> sets;
};

Inputs read_inputs() {
  const std::vector<char> file = read_fixture("inputs.bin");
  std::vector<float> values(file.size() / 2);
  codec(DType::BF16)
      .decode(reinterpret_cast<const std::byte*>(file.data()), values.data(), values.size());
  const auto at = values.begin();
  return {{{"gaussian", {at, at + 4096}},
           {"heavy", {at + 4096, at + 8192}},
           {"rows", {at + 8192, values.end()}}}};
}

double rmse(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double error = static_cast<double>(a[i]) - b[i];
    sum += error * error;
  }
  return std::sqrt(sum / static_cast<double>(a.size()));
}

TEST_P(Encode, ErrorIsAtMostTwoPercentAboveGgml) {
  const Inputs inputs = read_inputs();
  std::ifstream file(fixture_path("rmse.txt"));
  std::string type;
  std::string set;
  double theirs = 0;
  int num_compared = 0;
  while (file >> type >> set >> theirs) {
    if (type != name(GetParam())) continue;
    const std::vector<float>& values = inputs.sets.at(set);
    const double ours = rmse(round_trip(GetParam(), values), values);
    EXPECT_LE(ours, 1.02 * theirs) << set;
    EXPECT_GT(ours, 0.5 * theirs) << set << ": implausibly small";
    RecordProperty(set, std::to_string(ours / theirs));
    ++num_compared;
  }
  const bool has_peer = GetParam() != DType::Q8_1 && GetParam() != DType::Q8_K;
  EXPECT_EQ(num_compared, has_peer ? 3 : 0);
}

TEST_P(Encode, ZeroStaysZero) {
  for (const float value : round_trip(GetParam(), std::vector<float>(512, 0.0F))) {
    ASSERT_EQ(value, 0.0F);
  }
}

// Bound on the error of one value, relative to the largest magnitude of its block.
float relative_step(DType type) {
  const std::map<DType, float> steps = {
      {DType::Q8_0, 1 / 127.0F}, {DType::Q8_1, 1 / 127.0F}, {DType::Q8_K, 1 / 127.0F},
      {DType::Q6_K, 1 / 30.0F},  {DType::Q5_0, 1 / 14.0F},  {DType::Q5_1, 1 / 14.0F},
      {DType::Q5_K, 1 / 13.0F},  {DType::Q4_0, 1 / 6.0F},   {DType::Q4_1, 1 / 6.0F},
      {DType::Q4_K, 1 / 6.0F},   {DType::IQ4_NL, 0.25F},    {DType::IQ4_XS, 0.25F},
      {DType::MXFP4, 0.34F},     {DType::Q3_K, 0.34F},      {DType::Q2_K, 0.67F}};
  return steps.at(type);
}

TEST_P(Encode, EveryValueIsWithinOneStep) {
  for (const auto& [set, values] : read_inputs().sets) {
    const std::vector<float> got = round_trip(GetParam(), values);
    const auto block = static_cast<std::size_t>(info(GetParam()).block_elems);
    for (std::size_t b = 0; b < values.size(); b += block) {
      float largest = 0;
      for (std::size_t i = b; i < b + block; ++i)
        largest = std::max(largest, std::abs(values[i]));
      for (std::size_t i = b; i < b + block; ++i) {
        ASSERT_LE(std::abs(got[i] - values[i]), relative_step(GetParam()) * largest) << set << i;
      }
    }
  }
}

TEST_P(Encode, EqualValuesRoundTripClosely) {
  for (const float value : {1.0F, -1.0F, 0.37F, -250.0F}) {
    for (const float got : round_trip(GetParam(), std::vector<float>(256, value))) {
      ASSERT_NEAR(got, value, 0.05F * std::abs(value)) << value;
    }
  }
}

TEST_P(Encode, ExtremeValuesDecodeFiniteAndStayInTheirBlock) {
  const std::vector<float> odd = {kNaN,   kInf,   -kInf,   1e30F,   -1e30F,
                                  1e-30F, 1e-44F, 3.4e38F, 65504.0F};
  for (const float bad : odd) {
    for (const std::size_t at : {std::size_t{0}, std::size_t{17}, std::size_t{255}}) {
      std::vector<float> values(512, 0.25F);
      values[at] = bad;
      const std::vector<float> got = round_trip(GetParam(), values);
      for (const float value : got)
        ASSERT_TRUE(std::isfinite(value)) << bad;
      // The neighbouring block is unaffected.
      for (std::size_t i = 256; i < 512; ++i)
        ASSERT_NEAR(got[i], 0.25F, 0.02F) << bad;
      if (std::isnan(bad) && GetParam() != DType::MXFP4) {
        ASSERT_NEAR(got[at], 0.0F, 0.09F);
      }
      if (bad > 1e20F) {
        ASSERT_GE(got[at], 60000.0F) << bad;
      }
      if (bad < -1e20F) {
        ASSERT_LE(got[at], -60000.0F) << bad;
      }
    }
  }
  for (const float all : odd) {
    for (const float value : round_trip(GetParam(), std::vector<float>(256, all))) {
      ASSERT_TRUE(std::isfinite(value)) << all;
    }
  }
}

TEST_P(Encode, TinyBlocksDecodeNearZero) {
  for (const float tiny : {1e-10F, 1e-20F, 1e-38F, 1e-44F}) {
    for (const float value : round_trip(GetParam(), std::vector<float>(256, tiny))) {
      ASSERT_LE(std::abs(value), 2 * tiny) << tiny;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types,
                         Encode,
                         testing::ValuesIn(types_where(is_encodable_block)),
                         test_name);

TEST(EncodeQ8, StoresTheSumsOfTheQuants) {
  std::vector<float> values(256);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(i % 37) - 11.0F;
  BlockQ8K block;
  std::memcpy(&block, encode(DType::Q8_K, values).data(), sizeof(block));
  for (int s = 0; s < 16; ++s) {
    int total = 0;
    for (int i = 0; i < 16; ++i)
      total += block.quants[16 * s + i];
    const int stored = block.sums[s];
    EXPECT_EQ(stored, total);
  }
}

}  // namespace
}  // namespace graft::quant
