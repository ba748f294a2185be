#include "graft/formats/gguf/gguf_file.h"

#include <algorithm>
#include <functional>
#include <limits>

#include <gtest/gtest.h>

#include "graft/formats/gguf/gguf_writer.h"
#include "graft/testing/formats.h"
#include "graft/testing/shared_data.h"

namespace graft::formats {
namespace {

using test::Bytes;
using test::error_of;
using test::pattern;

GgufMetadata every_type() {
  GgufMetadata metadata;
  metadata.set("t.u8", std::uint8_t{255});
  metadata.set("t.i8", std::int8_t{-128});
  metadata.set("t.u16", std::uint16_t{65535});
  metadata.set("t.i16", std::int16_t{-32768});
  metadata.set("t.u32", std::numeric_limits<std::uint32_t>::max());
  metadata.set("t.i32", std::numeric_limits<std::int32_t>::min());
  metadata.set("t.f32", 1.25F);
  metadata.set("t.true", true);
  metadata.set("t.false", false);
  metadata.set("t.string", std::string("text \xC3\xA4\n"));
  metadata.set("t.empty", std::string());
  metadata.set("t.u64", std::numeric_limits<std::uint64_t>::max());
  metadata.set("t.i64", std::numeric_limits<std::int64_t>::min());
  metadata.set("t.f64", 1e300);
  metadata.set("t.words", GgufArray::of(std::vector<std::string>{"a", "", "ccc"}));
  metadata.set("t.ints", GgufArray::of(std::vector<std::int32_t>{1, -2}));
  metadata.set("t.floats", GgufArray::of(std::vector<float>{0.5F}));
  metadata.set("t.none", GgufArray::of(std::vector<std::string>{}));
  test::RawGguf nested;
  nested.number<std::uint32_t>(9).number<std::uint64_t>(1);
  nested.number<std::uint32_t>(8).number<std::uint64_t>(2).string("x").string("yy");
  metadata.set("t.nested", GgufArray{.type = GgufType::Array, .count = 1, .bytes = nested.bytes()});
  return metadata;
}

std::size_t bytes_of_spec(const TensorSpec& spec) {
  std::int64_t elems = 1;
  for (const std::int64_t dim : spec.shape)
    elems *= dim;
  return bytes_of(spec.dtype, elems);
}

void write(const std::filesystem::path& path,
           const GgufMetadata& metadata,
           const std::vector<TensorSpec>& specs) {
  GgufWriter writer(path, metadata, specs);
  for (std::size_t i = 0; i < specs.size(); ++i) {
    writer.append(pattern(bytes_of_spec(specs[i]), static_cast<unsigned>(i)));
  }
  writer.finish();
  EXPECT_EQ(writer.file_bytes(), std::filesystem::file_size(path));
}

TEST(GgufFile, ReturnsEveryMetadataType) {
  const TempDir folder;
  write(folder / "x.gguf", every_type(), {});
  const GgufFile file(folder / "x.gguf");
  EXPECT_EQ(file.version(), 3U);
  EXPECT_EQ(file.metadata().entries(), every_type().entries());
  EXPECT_TRUE(file.tensors().empty());
}

void expect_same(const TensorInfo& tensor, const TensorSpec& spec, unsigned seed) {
  EXPECT_EQ(tensor.name, spec.name);
  EXPECT_EQ(tensor.dtype, spec.dtype);
  EXPECT_EQ(tensor.shape, spec.shape);
  EXPECT_TRUE(std::ranges::equal(tensor.data, pattern(bytes_of_spec(spec), seed))) << spec.name;
}

class GgufFileAlignment : public testing::TestWithParam<std::uint32_t> {};

TEST_P(GgufFileAlignment, ReturnsEveryDtype) {
  std::vector<TensorSpec> specs = {{"scalar", DType::F32, {}}, {"odd", DType::I8, {3, 5, 1}}};
  for (const DTypeInfo& row : kDTypes) {
    if (row.ggml_id >= 0) specs.push_back({std::string(row.name), row.type, {3, row.block_elems}});
  }
  const TempDir folder;
  GgufMetadata metadata;
  metadata.set("general.alignment", GetParam());
  write(folder / "x.gguf", metadata, specs);
  const GgufFile file(folder / "x.gguf");
  ASSERT_EQ(file.tensors().size(), specs.size());
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const TensorInfo& tensor = file.tensors()[i];
    expect_same(tensor, specs[i], static_cast<unsigned>(i));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor.data.data()) % GetParam(), 0U);
    file.release(tensor);
  }
}

INSTANTIATE_TEST_SUITE_P(Alignments, GgufFileAlignment, testing::Values(8, 32, 64, 4096));

// Three parts of two tensors each; `change` edits the metadata of a part before it is written.
template <class Change>
void write_split(const TempDir& folder, Change change) {
  for (std::uint16_t no = 0; no < 3; ++no) {
    GgufMetadata metadata;
    if (no == 0) metadata.set("general.name", std::string("whole"));
    metadata.set("split.no", no);
    metadata.set("split.count", std::uint16_t{3});
    metadata.set("split.tensors.count", std::int32_t{6});
    std::string first = str("t", no, ".a");
    change(no, metadata, first);
    write(folder / str("m-0000", no + 1, "-of-00003.gguf"), metadata,
          {{first, DType::F32, {4}}, {str("t", no, ".b"), DType::Q8_0, {2, 32}}});
  }
}

std::string split_error(const std::function<void(int, GgufMetadata&, std::string&)>& change) {
  const TempDir folder;
  write_split(folder, change);
  std::string error = error_of([&] { GgufFile(folder / "m-00001-of-00003.gguf"); });
  const std::string prefix = (folder / "").string();
  for (auto at = error.find(prefix); at != std::string::npos; at = error.find(prefix)) {
    error.erase(at, prefix.size());
  }
  return error;
}

void expect_three_parts(const GgufFile& file, const TempDir& folder) {
  EXPECT_EQ(file.metadata().string("general.name"), "whole");
  EXPECT_EQ(file.paths().at(1), folder / "m-00002-of-00003.gguf");
  ASSERT_EQ(file.tensors().size(), 6U);
  EXPECT_EQ(file.tensors()[0].name, "t0.a");
  EXPECT_EQ(file.tensors()[5].name, "t2.b");
  EXPECT_TRUE(std::ranges::equal(file.tensors()[5].data, pattern(68, 1)));
}

TEST(GgufFile, OpensAllPartsFromAnyPart) {
  const TempDir folder;
  write_split(folder, [](int, GgufMetadata&, std::string&) {});
  for (const int part : {1, 2, 3}) {
    const GgufFile file(folder / str("m-0000", part, "-of-00003.gguf"));
    expect_three_parts(file, folder);
    for (const TensorInfo& tensor : file.tensors()) {
      file.release(tensor);
    }
  }
}

TEST(GgufFile, NamesTheMissingParts) {
  const TempDir folder;
  write_split(folder, [](int, GgufMetadata&, std::string&) {});
  std::filesystem::remove(folder / "m-00002-of-00003.gguf");
  EXPECT_EQ(
      error_of([&] { GgufFile(folder / "m-00001-of-00003.gguf"); }),
      str((folder / "m-00001-of-00003.gguf").string(),
          ": the checkpoint has 3 parts; missing: ", (folder / "m-00002-of-00003.gguf").string()));
  std::filesystem::rename(folder / "m-00001-of-00003.gguf", folder / "m.gguf");
  EXPECT_EQ(error_of([&] { GgufFile(folder / "m.gguf"); }),
            str((folder / "m.gguf").string(), ": split.count is 3, but the file name does ",
                "not end like -00001-of-00003.gguf"));
  std::filesystem::rename(folder / "m.gguf", folder / "m-00001-of-00004.gguf");
  EXPECT_EQ(error_of([&] { GgufFile(folder / "m-00001-of-00004.gguf"); }),
            str((folder / "m-00001-of-00004.gguf").string(),
                ": split.count is 3, the file name is part 1 of 4"));
}

TEST(GgufFile, RejectsInconsistentParts) {
  EXPECT_EQ(split_error([](int no, GgufMetadata& metadata, std::string&) {
              if (no == 1) metadata.set("split.no", std::uint16_t{2});
            }),
            "m-00002-of-00003.gguf: split.no is 2, expected 1 for part 2");
  EXPECT_EQ(split_error([](int no, GgufMetadata& metadata, std::string&) {
              if (no == 1) metadata.erase("split.no");
            }),
            "m-00002-of-00003.gguf: metadata key \"split.no\" is missing in a file of 3 parts");
  EXPECT_EQ(split_error([](int no, GgufMetadata& metadata, std::string&) {
              if (no == 2) metadata.set("split.count", std::uint16_t{4});
            }),
            "m-00003-of-00003.gguf: split.count is 4, the file name has 3 parts");
  EXPECT_EQ(split_error([](int no, GgufMetadata& metadata, std::string&) {
              if (no == 2) metadata.set("split.count", std::string("3"));
            }),
            "m-00003-of-00003.gguf: metadata key \"split.count\" is string, expected an integer");
  EXPECT_EQ(split_error([](int no, GgufMetadata& metadata, std::string&) {
              if (no == 0) metadata.set("split.tensors.count", std::int32_t{7});
            }),
            "m-00001-of-00003.gguf: split.tensors.count is 7, the 3 parts have 6");
  EXPECT_EQ(split_error([](int no, GgufMetadata&, std::string& first) {
              if (no == 2) first = "t0.a";
            }),
            "m-00001-of-00003.gguf: tensor \"t0.a\": is a duplicate: two parts contain it");
}

TEST(GgufFile, PartNameWithoutSplitMetadataIsASingleFile) {
  const TempDir folder;
  write(folder / "m-00001-of-00003.gguf", GgufMetadata(), {{"w", DType::F32, {4}}});
  EXPECT_EQ(GgufFile(folder / "m-00001-of-00003.gguf").paths().size(), 1U);
}

TEST(GgufFile, NamesThePathInErrors) {
  const TempDir folder;
  EXPECT_EQ(error_of([&] { GgufFile(folder / "none.gguf"); }),
            (folder / "none.gguf").string() + ": No such file or directory");
  test::write_file(folder / "text.gguf", "hello");
  EXPECT_EQ(error_of([&] { GgufFile(folder / "text.gguf"); }),
            (folder / "text.gguf").string() + ": not a GGUF file, it begins with \"hell\"");
}

struct Vocabulary {
  const char* file;
  std::uint64_t num_tokens;
  std::uint64_t num_merges;
};

void expect_vocabulary(const Vocabulary& want) {
  const GgufFile file(test_data("tokenizers") / want.file);
  const GgufArray* tokens = file.metadata().array("tokenizer.ggml.tokens");
  ASSERT_NE(tokens, nullptr) << want.file;
  EXPECT_EQ(tokens->strings().value().size(), want.num_tokens);
  const GgufArray* merges = file.metadata().array("tokenizer.ggml.merges");
  EXPECT_EQ(merges == nullptr ? 0 : merges->count, want.num_merges) << want.file;
  // The metadata round-trips.
  const TempDir folder;
  write(folder / "again.gguf", file.metadata(), {});
  EXPECT_EQ(GgufFile(folder / "again.gguf").metadata().entries(), file.metadata().entries());
}

TEST(GgufFile, ReadsRealVocabularies) {
  expect_vocabulary({"deepseek-llm.gguf", 3066, 423});
  expect_vocabulary({"gpt-2.gguf", 631, 374});
  expect_vocabulary({"llama-spm.gguf", 664, 0});
}

}  // namespace
}  // namespace graft::formats
