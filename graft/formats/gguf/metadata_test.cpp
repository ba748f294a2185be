#include "graft/formats/gguf/metadata.h"

#include <limits>

#include <gtest/gtest.h>

#include "graft/testing/formats.h"

namespace graft::formats {
namespace {

using test::error_of;

TEST(GgufMetadata, KeepsInsertionOrderAndReplacesInPlace) {
  GgufMetadata metadata;
  metadata.set("a", std::uint32_t{1});
  metadata.set("b", std::string("two"));
  metadata.set("c", 3.0F);
  metadata.set("b", std::string("second"));
  ASSERT_EQ(metadata.entries().size(), 3U);
  EXPECT_EQ(metadata.entries()[1].first, "b");
  EXPECT_EQ(metadata.string("b"), "second");
  metadata.erase("a");
  metadata.erase("not there");
  ASSERT_EQ(metadata.entries().size(), 2U);
  EXPECT_EQ(metadata.find("a"), nullptr);
  EXPECT_EQ(metadata.string("b"), "second");
  EXPECT_EQ(metadata.number("c"), 3.0);
  metadata.set("a", true);
  EXPECT_EQ(metadata.entries().back().first, "a");
}

TEST(GgufMetadata, ReadsEveryIntegerTypeAsInteger) {
  GgufMetadata metadata;
  metadata.set("u8", std::uint8_t{200});
  metadata.set("i8", std::int8_t{-100});
  metadata.set("u16", std::uint16_t{60000});
  metadata.set("i16", std::int16_t{-30000});
  metadata.set("u32", std::uint32_t{4000000000U});
  metadata.set("i32", std::int32_t{-2000000000});
  metadata.set("u64", std::uint64_t{1} << 62U);
  metadata.set("i64", std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(metadata.integer("u8"), 200);
  EXPECT_EQ(metadata.integer("i8"), -100);
  EXPECT_EQ(metadata.integer("u16"), 60000);
  EXPECT_EQ(metadata.integer("i16"), -30000);
  EXPECT_EQ(metadata.integer("u32"), 4000000000);
  EXPECT_EQ(metadata.integer("i32"), -2000000000);
  EXPECT_EQ(metadata.integer("u64"), std::int64_t{1} << 62);
  EXPECT_EQ(metadata.integer("i64"), std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(metadata.number("i16"), -30000.0);
  EXPECT_EQ(metadata.integer("absent"), std::nullopt);
}

TEST(GgufMetadata, TypeErrorsNameTheKeyAndTheTypes) {
  GgufMetadata metadata;
  metadata.set("x.count", 1.5F);
  metadata.set("x.flag", true);
  metadata.set("x.big", std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(error_of([&] { metadata.integer("x.count"); }),
            "metadata key \"x.count\" is f32, expected an integer");
  EXPECT_EQ(error_of([&] { metadata.integer("x.flag"); }),
            "metadata key \"x.flag\" is bool, expected an integer");
  EXPECT_EQ(error_of([&] { metadata.integer("x.big"); }),
            "metadata key \"x.big\" is 18446744073709551615, above the range of int64");
  EXPECT_EQ(error_of([&] { metadata.number("x.flag"); }),
            "metadata key \"x.flag\" is bool, expected a number");
  EXPECT_EQ(error_of([&] { metadata.boolean("x.count"); }),
            "metadata key \"x.count\" is f32, expected a bool");
  EXPECT_EQ(error_of([&] { metadata.string("x.count"); }),
            "metadata key \"x.count\" is f32, expected a string");
  EXPECT_EQ(error_of([&] { metadata.array("x.count"); }),
            "metadata key \"x.count\" is f32, expected an array");
}

TEST(GgufMetadata, StaysFastWithManyKeys) {
  GgufMetadata metadata;
  for (int i = 0; i < 100000; ++i)
    metadata.set("key." + std::to_string(i), i);
  for (int i = 0; i < 100000; ++i)
    ASSERT_EQ(metadata.integer("key." + std::to_string(i)), i);
}

TEST(GgufArray, ReturnsItsElements) {
  const std::vector<std::string> words = {"", "a", std::string("nul\0inside", 10), "\xFF\xFE"};
  EXPECT_EQ(GgufArray::of(words).strings(), words);
  EXPECT_EQ(GgufArray::of(std::vector<std::int32_t>{-1, 7}).integers(),
            (std::vector<std::int64_t>{-1, 7}));
  EXPECT_EQ(GgufArray::of(std::vector<std::int32_t>{-1, 7}).numbers(),
            (std::vector<double>{-1, 7}));
  EXPECT_EQ(GgufArray::of(std::vector<float>{0.5F}).numbers(), std::vector<double>{0.5});
  EXPECT_EQ(GgufArray::of(std::vector<std::string>{}).strings(), std::vector<std::string>{});
}

TEST(GgufArray, OtherElementTypesAreNullopt) {
  const GgufArray floats = GgufArray::of(std::vector<float>{0.5F});
  EXPECT_EQ(floats.integers(), std::nullopt);
  EXPECT_EQ(floats.strings(), std::nullopt);
  const GgufArray bools{.type = GgufType::Bool, .count = 1, .bytes = {std::byte{1}}};
  EXPECT_EQ(bools.integers(), std::nullopt);
  EXPECT_EQ(bools.numbers(), std::nullopt);
}

TEST(GgufArray, RejectsWrongByteCountsAndOverflow) {
  const GgufArray lies{.type = GgufType::I32, .count = 1ULL << 60U, .bytes = test::Bytes(8)};
  EXPECT_EQ(error_of([&] { lies.integers(); }),
            "metadata array: 1152921504606846976 elements of i32 in 8 bytes");
  const GgufArray big{.type = GgufType::U64, .count = 1, .bytes = test::Bytes(8, std::byte{0xFF})};
  EXPECT_EQ(error_of([&] { big.integers(); }),
            "metadata array: element 0 is 18446744073709551615, above the range of int64");
  const GgufArray words{.type = GgufType::String, .count = 1ULL << 60U, .bytes = {}};
  EXPECT_NE(error_of([&] { words.strings(); }), "");
}

}  // namespace
}  // namespace graft::formats
