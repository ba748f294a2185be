#include "graft/packing/packed_file.h"

#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <xxhash.h>

#include "graft/packing/packed_writer.h"
#include "graft/packing/panel_layout.h"
#include "graft/testing/formats.h"

namespace graft::packing {
namespace {

using formats::test::Bytes;
using formats::test::error_of;

// Byte offsets in the file; kTypeAt and the following are of the first tensor.
constexpr std::size_t kFormatAt = 8;
constexpr std::size_t kLayoutAt = 12;
constexpr std::size_t kTableOffsetAt = 24;
constexpr std::size_t kTableBytesAt = 32;
constexpr std::size_t kHashAt = 40;

class PackedFileTest : public testing::Test {
 protected:
  PackedFileTest() {
    add("a", DType::Q4_0, 17, 64);  // two panels, the second with one row
    add("b", DType::Q6_K, 16, 256);
    write();
    bytes_ = formats::test::read_file(folder_ / "x");
  }

  void add(const std::string& name, DType dtype, std::int64_t rows, std::int64_t cols) {
    data_.push_back(formats::test::pattern(
        static_cast<std::size_t>(packed_bytes(dtype, rows, cols)), unsigned(data_.size())));
    file_.tensors.push_back({.name = name,
                             .dtype = dtype,
                             .rows = rows,
                             .cols = cols,
                             .hash = hash_panels(data_.back(), nullptr),
                             .bytes = {}});
    for (std::size_t i = 0; i < data_.size(); ++i)
      file_.tensors[i].bytes = data_[i];
  }

  void write() const {
    PackedWriter writer(folder_ / "x", file_.fingerprint, false);
    for (const PackedTensor& tensor : file_.tensors)
      writer.append(tensor);
    writer.finish();
  }

  template <class T>
  static T number_at(const Bytes& bytes, std::size_t at) {
    T value = 0;
    std::memcpy(&value, bytes.data() + at, sizeof(T));
    return value;
  }
  template <class T>
  static void put(Bytes& bytes, std::size_t at, T value) {
    std::memcpy(bytes.data() + at, &value, sizeof(T));
  }
  static std::size_t table_at(const Bytes& bytes) {
    return number_at<std::uint64_t>(bytes, kTableOffsetAt);
  }
  // Updates the checksum of the table.
  static void set_checksum(Bytes& bytes) {
    const auto table_bytes = number_at<std::uint64_t>(bytes, kTableBytesAt);
    put(bytes, kHashAt,
        XXH3_64bits_withSeed(bytes.data() + table_at(bytes), table_bytes,
                             XXH3_64bits(bytes.data(), kHashAt)));
  }
  std::string error_with(const std::function<void(Bytes&)>& change) const {
    Bytes changed = bytes_;
    change(changed);
    return error_of([&] { parse_packed(changed, "x"); });
  }
  // The count, then a length and "a", then a length and "Q4_0".
  std::size_t type_at() const { return table_at(bytes_) + 8 + 9 + 8; }
  std::size_t rows_at() const { return type_at() + 4; }
  std::size_t offset_at() const { return rows_at() + 16; }

  TempDir folder_;
  std::vector<Bytes> data_;
  PackedFile file_ = {.fingerprint = 0x1234567890abcdef, .tensors = {}};
  Bytes bytes_;
};

TEST_F(PackedFileTest, RoundTripsPanels) {
  const PackedFile read = parse_packed(bytes_, "x");
  EXPECT_EQ(read.fingerprint, file_.fingerprint);
  ASSERT_EQ(read.tensors.size(), 2U);
  for (std::size_t i = 0; i < 2; ++i) {
    const PackedTensor& tensor = read.tensors[i];
    EXPECT_EQ(tensor.name, file_.tensors[i].name);
    EXPECT_EQ(tensor.dtype, file_.tensors[i].dtype);
    EXPECT_EQ(tensor.rows, file_.tensors[i].rows);
    EXPECT_EQ(tensor.cols, file_.tensors[i].cols);
    EXPECT_EQ(tensor.hash, file_.tensors[i].hash);
    EXPECT_EQ(Bytes(tensor.bytes.begin(), tensor.bytes.end()), data_[i]);
    EXPECT_EQ((tensor.bytes.data() - bytes_.data()) % 4096, 0);
  }
}

TEST_F(PackedFileTest, RejectsEveryTruncation) {
  for (std::size_t size = 0; size < bytes_.size(); ++size) {
    EXPECT_THROW(parse_packed(std::span(bytes_).first(size), "x"), Error) << size << " bytes";
  }
}

TEST_F(PackedFileTest, RejectsEveryChangedByteOfHeaderAndTable) {
  const auto is_checked = [&](std::size_t at) {
    return at < kHashAt + 8 || at >= table_at(bytes_);
  };
  for (std::size_t at = 0; at < bytes_.size(); ++at) {
    if (!is_checked(at)) continue;
    const std::string error = error_with([&](Bytes& b) { b[at] ^= std::byte{0x10}; });
    EXPECT_TRUE(error.starts_with("x: ")) << "byte " << at << ": " << error;
  }
}

TEST_F(PackedFileTest, HeaderErrorsNameTheField) {
  const auto expect = [&](const std::string& error, const std::function<void(Bytes&)>& change) {
    EXPECT_EQ(error_with(change), error);
  };
  expect("x: not a packed weights file", [](Bytes& b) { b[0] = std::byte{'g'}; });
  expect("x: format version 7, this program supports 2",
         [](Bytes& b) { put<std::uint32_t>(b, kFormatAt, 7); });
  expect(str("x: layout version 99, this program supports ", kPanelLayoutVersion),
         [](Bytes& b) { put<std::uint32_t>(b, kLayoutAt, 99); });
  expect(str("x: table: damaged: the checksum of its ",
             number_at<std::uint64_t>(bytes_, kTableBytesAt), " bytes does not match"),
         [&](Bytes& b) { b[type_at()] ^= std::byte{1}; });
}

TEST_F(PackedFileTest, RejectsAWrongTableWithAValidChecksum) {
  const auto expect = [&](const std::string& part, const std::function<void(Bytes&)>& change) {
    const std::string error = error_with([&](Bytes& b) {
      change(b);
      set_checksum(b);
    });
    EXPECT_NE(error.find(part), std::string::npos) << "'" << error << "' instead of " << part;
  };
  constexpr auto kHuge = std::uint64_t{1} << 63;
  expect("tensors need at least", [&](Bytes& b) { put(b, table_at(b), kHuge); });
  expect("truncated", [&](Bytes& b) { put(b, table_at(b) + 8, kHuge); });  // the name's length
  expect("a: 'Q9_0' has no packed layout", [&](Bytes& b) { b[type_at() + 1] = std::byte{'9'}; });
  expect("a: [0, 64] is not a valid shape", [&](Bytes& b) { put<std::int64_t>(b, rows_at(), 0); });
  expect("a: [-1, 64] is not a valid shape",
         [&](Bytes& b) { put<std::int64_t>(b, rows_at(), -1); });
  expect("is not a valid shape",
         [&](Bytes& b) { put<std::int64_t>(b, rows_at() + 8, INT64_MAX / 32 * 32); });
  expect("a: [17, 65] is not a valid shape for Q4_0",
         [&](Bytes& b) { put<std::int64_t>(b, rows_at() + 8, 65); });
  expect("needs", [&](Bytes& b) { put<std::int64_t>(b, rows_at(), std::int64_t{1} << 30); });
  expect("offset 32 is unaligned", [&](Bytes& b) { put<std::uint64_t>(b, offset_at(), 32); });
  expect("truncated", [&](Bytes& b) { put(b, offset_at(), kHuge); });
  expect("needs", [&](Bytes& b) { put(b, offset_at() + 8, kHuge); });
  const std::string outside = error_with([](Bytes& b) { put(b, kTableOffsetAt, kHuge); });
  EXPECT_NE(outside.find("table: truncated"), std::string::npos) << outside;
  // The second tensor overlaps the first, or has its name.
  const std::size_t second = offset_at() + 24;
  expect("b: offset 0 is unaligned or before",
         [&](Bytes& b) { put<std::uint64_t>(b, second + 9 + 12 + 16, 0); });
  expect("a: duplicate name", [&](Bytes& b) { b[second + 8] = std::byte{'a'}; });
}

TEST_F(PackedFileTest, AppendReturnsTheBytesOfTheNewFile) {
  SharedBytes first;
  SharedBytes second;
  {
    PackedWriter writer(folder_ / "y", 1, true);
    first = writer.append(file_.tensors[0]);
    second = writer.append(file_.tensors[1]);
    EXPECT_NE(first.bytes.data(), data_[0].data());
    writer.finish();
  }
  EXPECT_EQ(Bytes(first.bytes.begin(), first.bytes.end()), data_[0]);
  EXPECT_EQ(Bytes(second.bytes.begin(), second.bytes.end()), data_[1]);
  const Bytes written = formats::test::read_file(folder_ / "y");
  EXPECT_EQ(parse_packed(written, "y").tensors.size(), 2U);
}

TEST_F(PackedFileTest, LeavesNoFileWithoutFinish) {
  { PackedWriter(folder_ / "y", 1, true).append(file_.tensors[0]); }
  EXPECT_EQ(formats::test::names_in(folder_).size(), 1U);
}

TEST(HashPanels, DependsOnEveryChunkAndNotOnThreads) {
  Bytes bytes = formats::test::pattern(std::size_t{900} << 10, 3);
  const std::uint64_t hash = hash_panels(bytes, nullptr);
  for (const std::size_t threads : {1U, 2U, 5U}) {
    ThreadPool pool(threads);
    EXPECT_EQ(hash_panels(bytes, &pool), hash);
  }
  for (std::size_t at = 1000; at < bytes.size(); at += 100'000) {
    bytes[at] ^= std::byte{1};
    EXPECT_NE(hash_panels(bytes, nullptr), hash) << at;
    bytes[at] ^= std::byte{1};
  }
}

}  // namespace
}  // namespace graft::packing
