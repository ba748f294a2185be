#include "graft/formats/gguf/gguf_part.h"

#include <random>

#include <gtest/gtest.h>

#include "graft/testing/formats.h"

namespace graft::formats {
namespace {

using test::Bytes;
using test::error_of;
using test::RawGguf;

constexpr std::uint32_t kU32 = 4;
constexpr std::uint32_t kBool = 7;
constexpr std::uint32_t kString = 8;
constexpr std::uint32_t kArray = 9;
constexpr std::uint32_t kGgmlF32 = 0;
constexpr std::uint32_t kGgmlQ4K = 12;

std::string error_of_bytes(const RawGguf& raw) {
  return error_of([&] { parse_gguf(raw.bytes(), "x.gguf"); });
}

// A file with one key of every shape and two tensors; the data ends with the file.
RawGguf valid(std::uint32_t version = 3) {
  RawGguf raw;
  raw.header(2, 5, version);
  raw.key("general.alignment", kU32, std::uint32_t{32});
  raw.key("a.flag", kBool, std::uint8_t{1});
  raw.string("a.name").number(kString).string("name");
  raw.string("a.words").number(kArray).number(kString).number<std::uint64_t>(2);
  raw.string("one").string("");
  raw.string("a.nested").number(kArray).number(kArray).number<std::uint64_t>(2);
  raw.number(kU32).number<std::uint64_t>(1).number<std::uint32_t>(7);
  raw.number(kBool).number<std::uint64_t>(2).number<std::uint8_t>(0).number<std::uint8_t>(1);
  raw.tensor("w", {256, 2}, kGgmlQ4K, 0).tensor("b", {8}, kGgmlF32, 288);
  return raw.pad().zeros(288 + 32);
}

RawGguf one_tensor(const std::vector<std::uint64_t>& dims,
                   std::uint32_t type,
                   std::uint64_t offset = 0,
                   std::size_t data_bytes = 4096) {
  RawGguf raw;
  return raw.header(1, 0).tensor("w", dims, type, offset).pad().zeros(data_bytes);
}

void expect_metadata(const GgufMetadata& metadata) {
  EXPECT_EQ(metadata.boolean("a.flag"), true);
  EXPECT_EQ(metadata.string("a.name"), "name");
  EXPECT_EQ(metadata.array("a.words")->strings(), (std::vector<std::string>{"one", ""}));
  EXPECT_EQ(metadata.array("a.nested")->count, 2U);
}

void expect_tensors(const std::vector<TensorInfo>& tensors, const Bytes& file) {
  ASSERT_EQ(tensors.size(), 2U);
  EXPECT_EQ(tensors[0].shape, (std::vector<std::int64_t>{2, 256}));
  EXPECT_EQ(tensors[0].dtype, DType::Q4_K);
  EXPECT_EQ(tensors[1].data.size(), 32U);
  EXPECT_EQ(tensors[1].data.data() + 32, file.data() + file.size());
}

TEST(ParseGguf, ReadsVersions2And3) {
  for (const std::uint32_t version : {2U, 3U}) {
    const RawGguf raw = valid(version);
    const GgufPart part = parse_gguf(raw.bytes(), "x.gguf");
    EXPECT_EQ(part.version, version);
    expect_metadata(part.metadata);
    expect_tensors(part.tensors, raw.bytes());
  }
}

TEST(ParseGguf, ReadsAScalar) {
  const RawGguf raw = one_tensor({}, kGgmlF32);
  const GgufPart part = parse_gguf(raw.bytes(), "x.gguf");
  EXPECT_TRUE(part.tensors[0].shape.empty());
  EXPECT_EQ(part.tensors[0].data.size(), 4U);
}

TEST(ParseGguf, RejectsEveryTruncation) {
  const Bytes bytes = valid().bytes();
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    // A copy of exactly this size, so that the address sanitizer sees a read past it.
    const Bytes cut(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
    const std::string error = error_of([&] { parse_gguf(cut, "x.gguf"); });
    EXPECT_TRUE(error.starts_with("x.gguf: ")) << size << " bytes: " << error;
    EXPECT_EQ(error.find('\n'), std::string::npos);
  }
}

TEST(ParseGguf, SurvivesFlippedBytes) {
  const Bytes bytes = valid().bytes();
  std::mt19937 random(1);
  for (int i = 0; i < 20000; ++i) {
    Bytes broken = bytes;
    for (auto flips = 1 + random() % 3; flips > 0; --flips) {
      broken[random() % broken.size()] = static_cast<std::byte>(random() & 0xFFU);
    }
    error_of([&] { parse_gguf(broken, "x.gguf"); });
  }
}

TEST(ParseGguf, RejectsOtherMagicsAndVersions) {
  EXPECT_EQ(error_of_bytes(RawGguf().text("PK\x03\x04").zeros(20)),
            "x.gguf: not a GGUF file, it begins with \"PK??\"");
  EXPECT_EQ(error_of_bytes(RawGguf().header(0, 0, 1)),
            "x.gguf: GGUF version 1 is not supported, only 2 and 3 are");
  EXPECT_EQ(error_of_bytes(RawGguf().header(0, 0, 4)),
            "x.gguf: GGUF version 4 is not supported, only 2 and 3 are");
  EXPECT_EQ(error_of_bytes(RawGguf().header(0, 0, 0x03000000)),
            "x.gguf: a big-endian GGUF file (version reads as 50331648), only little-endian ones "
            "are supported");
}

TEST(ParseGguf, ChecksCountsBeforeAllocating) {
  EXPECT_EQ(error_of_bytes(RawGguf().header(1ULL << 60U, 0)),
            "x.gguf: 1152921504606846976 tensors need at least 25 bytes each, 8 bytes are left");
  EXPECT_EQ(error_of_bytes(RawGguf().header(0, 1ULL << 60U)),
            "x.gguf: 1152921504606846976 metadata keys need at least 14 bytes each, 0 bytes are "
            "left");
  RawGguf array;
  array.header(0, 1).string("k").number(kArray).number(kU32).number(1ULL << 62U).zeros(8);
  EXPECT_EQ(error_of_bytes(array),
            "x.gguf: metadata key \"k\": 4611686018427387904 elements need at least 4 bytes each, "
            "8 bytes are left");
}

TEST(ParseGguf, RejectsInvalidMetadata) {
  EXPECT_EQ(error_of_bytes(RawGguf().header(0, 1).number(1ULL << 62U).zeros(8)),
            "x.gguf: metadata key 0: truncated: needs 4611686018427387904 bytes at byte 32, the "
            "end is at 40");
  EXPECT_EQ(error_of_bytes(RawGguf().header(0, 1).key("", kU32, 1).zeros(8)),
            "x.gguf: metadata key 0: the name is empty");
  EXPECT_EQ(error_of_bytes(RawGguf().header(0, 1).key(std::string(65536, 'k'), kU32, 1)),
            "x.gguf: metadata key 0: the name has 65536 bytes, the maximum is 65535");
  EXPECT_EQ(error_of_bytes(RawGguf().header(0, 1).key("a\nb", kU32, 1)),
            "x.gguf: metadata key 0: the name \"a?b\" has control characters or is not UTF-8");
  EXPECT_EQ(error_of_bytes(RawGguf().header(0, 2).key("k", kU32, 1).key("k", kU32, 1)),
            "x.gguf: metadata key \"k\": is a duplicate");
  EXPECT_EQ(error_of_bytes(RawGguf().header(0, 1).key("k", 13, 1)),
            "x.gguf: metadata key \"k\": metadata type 13 is unknown");
  EXPECT_EQ(error_of_bytes(RawGguf().header(0, 1).key("k", kBool, std::uint8_t{2})),
            "x.gguf: metadata key \"k\": a bool is 2, only 0 and 1 are allowed");
  RawGguf bools;
  bools.header(0, 1).string("k").number(kArray).number(kBool).number<std::uint64_t>(2);
  EXPECT_EQ(error_of_bytes(bools.text("\x01\xFF")),
            "x.gguf: metadata key \"k\": a bool is 255, only 0 and 1 are allowed");
}

TEST(ParseGguf, LimitsTheNestingOfArrays) {
  for (const int depth : {4, 5, 1000}) {
    RawGguf raw;
    raw.header(0, 1).string("k").number(kArray);
    for (int i = 1; i < depth; ++i)
      raw.number(kArray).number<std::uint64_t>(1);
    raw.number(kU32).number<std::uint64_t>(0).zeros(16);
    EXPECT_EQ(error_of_bytes(raw),
              depth == 4 ? "" : "x.gguf: metadata key \"k\": arrays nested deeper than 4");
  }
}

TEST(ParseGguf, RejectsInvalidAlignments) {
  for (const std::uint32_t alignment : {0U, 4U, 24U}) {
    EXPECT_EQ(
        error_of_bytes(RawGguf().header(0, 1).key("general.alignment", kU32, alignment)),
        str("x.gguf: general.alignment is ", alignment, ", expected a power of two of at least 8"));
  }
  EXPECT_EQ(error_of_bytes(RawGguf().header(0, 1).key("general.alignment", 10, std::uint64_t{32})),
            "x.gguf: general.alignment is u64, expected u32");
}

TEST(ParseGguf, RejectsInvalidShapes) {
  EXPECT_EQ(error_of_bytes(one_tensor({1, 1, 1, 1, 1}, kGgmlF32)),
            "x.gguf: tensor \"w\": 5 dimensions, the maximum is 4");
  EXPECT_EQ(error_of_bytes(one_tensor({3, 0}, kGgmlF32)),
            "x.gguf: tensor \"w\": shape [0, 3] has a dimension of 0, expected at least 1");
  EXPECT_EQ(error_of_bytes(one_tensor({~0ULL}, kGgmlF32)),
            "x.gguf: tensor \"w\": shape [-1] has a dimension of -1, expected at least 1");
  EXPECT_EQ(error_of_bytes(one_tensor({1ULL << 32U, 1ULL << 32U}, kGgmlF32)),
            "x.gguf: tensor \"w\": shape [4294967296, 4294967296] overflows 64 bits");
  EXPECT_EQ(error_of_bytes(one_tensor({1ULL << 62U}, kGgmlF32)),
            "x.gguf: tensor \"w\": 4611686018427387904 values of F32 overflow 64 bits of bytes");
  EXPECT_EQ(
      error_of_bytes(one_tensor({255, 2}, kGgmlQ4K)),
      "x.gguf: tensor \"w\": rows of 255 values are not a multiple of the block of 256 values "
      "of Q4_K");
}

TEST(ParseGguf, RejectsUnknownAndRemovedTypes) {
  for (const std::uint32_t type : {4U, 5U, 31U, 32U, 33U, 36U, 37U, 38U}) {
    EXPECT_EQ(error_of_bytes(one_tensor({256}, type)),
              str("x.gguf: tensor \"w\": ggml type ", type, " was removed from the format"));
  }
  EXPECT_EQ(error_of_bytes(one_tensor({256}, 99)), "x.gguf: tensor \"w\": ggml type 99 is unknown");
  EXPECT_EQ(error_of_bytes(one_tensor({256}, ~0U)),
            "x.gguf: tensor \"w\": ggml type 4294967295 is unknown");
}

TEST(ParseGguf, RejectsTensorsOutsideTheFile) {
  EXPECT_EQ(error_of_bytes(one_tensor({8}, kGgmlF32, 5)),
            "x.gguf: tensor \"w\": offset 5 is not a multiple of the alignment 32");
  EXPECT_EQ(error_of_bytes(one_tensor({8}, kGgmlF32, 96, 100)),
            "x.gguf: tensor \"w\": needs 32 bytes at byte 64 + 96 (bytes 160..192), the file has "
            "164: cut off, perhaps an incomplete download");
  EXPECT_NE(error_of_bytes(one_tensor({8}, kGgmlF32, ~0ULL - 31)).find("the file has 4160"),
            std::string::npos);
}

TEST(ParseGguf, RejectsOverlapsAndDuplicateNames) {
  RawGguf overlap;
  overlap.header(2, 0).tensor("b", {16}, kGgmlF32, 32).tensor("a", {16}, kGgmlF32, 0);
  EXPECT_EQ(error_of_bytes(overlap.pad().zeros(200)),
            "x.gguf: tensors \"a\" and \"b\" overlap: bytes 96..160 and 128..192");
  RawGguf twice;
  twice.header(2, 0).tensor("a", {8}, kGgmlF32, 0).tensor("a", {8}, kGgmlF32, 32);
  EXPECT_EQ(error_of_bytes(twice.pad().zeros(64)), "x.gguf: tensor \"a\": is a duplicate");
}

TEST(ParseGguf, RejectsUnprintableNames) {
  const auto named = [](std::string_view name) {
    return RawGguf().header(1, 0).tensor(name, {8}, kGgmlF32, 0).pad().zeros(32);
  };
  EXPECT_EQ(error_of_bytes(named("blk.0.\xC3\xA4")), "");
  EXPECT_EQ(error_of_bytes(named("")), "x.gguf: tensor 0: the name is empty");
  for (const std::string_view bad : {"a\x1B[0m", "a\x7F", "\xC3", "\xC0\x80", "\xED\xA0\x80",
                                     "\xF5\x80\x80\x80", "\xE2\x28\xA1"}) {
    EXPECT_NE(error_of_bytes(named(bad)).find("has control characters or is not UTF-8"),
              std::string::npos);
  }
}

}  // namespace
}  // namespace graft::formats
