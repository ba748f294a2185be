#include "graft/formats/gguf/gguf_writer.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "graft/formats/gguf/gguf_file.h"
#include "graft/testing/formats.h"

namespace graft::formats {
namespace {

using test::error_of;
using test::pattern;

std::string gguf_error(const TensorSpec& spec) {
  const TempDir folder;
  const std::string path = (folder / "x.gguf").string();
  std::string error = error_of([&] { GgufWriter(path, {}, {spec}); });
  EXPECT_TRUE(error.starts_with(path + ": ")) << error;
  EXPECT_TRUE(test::names_in(folder).empty());
  return error.substr(path.size() + 2);
}

TEST(GgufWriter, AcceptsATensorInChunks) {
  const TempDir folder;
  GgufWriter writer(folder / "x.gguf", {}, {{"a", DType::I8, {3000001}}, {"b", DType::F32, {1}}});
  const auto data = pattern(3000001, 9);
  const std::span<const std::byte> bytes = data;
  writer.append(bytes.first(1));
  writer.append({});
  writer.append(bytes.subspan(1, 2999999));
  writer.append(bytes.last(1));
  writer.append(pattern(4, 1));
  EXPECT_FALSE(std::filesystem::exists(folder / "x.gguf"));
  writer.finish();
  EXPECT_EQ(test::names_in(folder), std::vector<std::string>{"x.gguf"});
  EXPECT_EQ(std::filesystem::file_size(folder / "x.gguf"), writer.file_bytes());
  const GgufFile file(folder / "x.gguf");
  EXPECT_TRUE(std::ranges::equal(file.tensors()[0].data, data));
  EXPECT_TRUE(std::ranges::equal(file.tensors()[1].data, pattern(4, 1)));
}

TEST(GgufWriter, KeepsTheOldFileWithoutFinish) {
  const TempDir folder;
  test::write_file(folder / "x.gguf", "old");
  {
    GgufWriter writer(folder / "x.gguf", {}, {{"a", DType::F32, {2}}});
    writer.append(pattern(4, 0));
  }
  EXPECT_EQ(test::names_in(folder), std::vector<std::string>{"x.gguf"});
  EXPECT_EQ(test::read_file(folder / "x.gguf").size(), 3U);
}

TEST(GgufWriter, RejectsUnsupportedTensors) {
  EXPECT_EQ(gguf_error({"w", DType::F8_E4M3, {4}}),
            "tensor \"w\": F8_E4M3 cannot be stored in GGUF");
  EXPECT_EQ(gguf_error({"w", DType::F32, {1, 1, 1, 1, 4}}),
            "tensor \"w\": 5 dimensions, the maximum in GGUF is 4");
  EXPECT_EQ(gguf_error({"w", DType::F32, {0}}),
            "tensor \"w\": shape [0] has a dimension of 0, expected at least 1");
  EXPECT_EQ(
      gguf_error({"w", DType::Q4_K, {2, 128}}),
      "tensor \"w\": rows of 128 values are not a multiple of the block of 256 values of Q4_K");
  EXPECT_EQ(gguf_error({"", DType::F32, {1}}), "tensor: the name is empty");
  EXPECT_EQ(
      gguf_error({std::string(64, 'n'), DType::F32, {1}}),
      "tensor \"" + std::string(64, 'n') + "\": the name has 64 bytes, the maximum in GGUF is 63");
}

TEST(GgufWriter, RejectsInvalidMetadataAndDuplicateNames) {
  const TempDir folder;
  const auto path = folder / "x.gguf";
  const auto error_with = [&](const std::string& key, const GgufValue& value) {
    GgufMetadata metadata;
    metadata.set(key, value);
    return error_of([&] { GgufWriter(path, metadata, {}); }).substr(path.string().size() + 2);
  };
  EXPECT_EQ(error_with("", 1), "metadata key: the name is empty");
  EXPECT_EQ(error_with("general.alignment", std::uint32_t{12}),
            "general.alignment is 12, expected a power of two of at least 8");
  EXPECT_EQ(error_with("k", GgufArray{.type = GgufType::I32, .count = 3, .bytes = pattern(8, 0)}),
            "metadata key \"k\": 3 elements in 8 bytes");
  EXPECT_EQ(error_with("k", GgufArray{.type = GgufType::I32, .count = 1, .bytes = pattern(8, 0)}),
            "metadata key \"k\": 4 bytes after the last of 1 elements");
  EXPECT_EQ(error_of([&] {
              GgufWriter(path, {}, {{"w", DType::F32, {1}}, {"w", DType::F32, {1}}});
            }),
            path.string() + ": tensor \"w\": is a duplicate");
}

TEST(GgufWriter, ReportsWhyTheFileCannotBeCreated) {
  const TempDir folder;
  EXPECT_EQ(error_of([&] { GgufWriter(folder / "no/x.gguf", {}, {}); }),
            (folder / "no/x.gguf").string() + ": the folder " + (folder / "no").string() +
                " does not exist");
  EXPECT_EQ(error_of([&] { GgufWriter(folder.path(), {}, {}); }),
            folder.path().string() + ": is a folder");
}

TEST(GgufWriterDeathTest, AbortsOnWrongAppends) {
  const TempDir folder;
  EXPECT_DEATH(
      {
        GgufWriter writer(folder / "x.gguf", {}, {{"w", DType::F32, {2}}});
        writer.append(pattern(9, 0));
      },
      "9 bytes appended to tensor 0, which has 8 left");
  EXPECT_DEATH(
      {
        GgufWriter writer(folder / "x.gguf", {}, {{"w", DType::F32, {2}}});
        writer.append(pattern(8, 0));
        writer.append(pattern(1, 0));
      },
      "1 bytes after the last of 1 tensors");
  EXPECT_DEATH(
      {
        GgufWriter writer(folder / "x.gguf", {}, {{"w", DType::F32, {2}}});
        writer.finish();
      },
      "0 of 1 tensors are complete");
}

}  // namespace
}  // namespace graft::formats
