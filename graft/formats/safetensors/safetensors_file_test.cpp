#include "graft/formats/safetensors/safetensors_file.h"

#include <algorithm>
#include <random>

#include <gtest/gtest.h>

#include "graft/formats/safetensors/safetensors_writer.h"
#include "graft/testing/formats.h"
#include "graft/testing/golden.h"

namespace graft::formats {
namespace {

using test::Bytes;
using test::error_of;
using test::pattern;

Bytes raw_file(std::string_view header, std::size_t data_bytes) {
  test::RawGguf raw;
  return raw.string(header).zeros(data_bytes).bytes();
}

std::string header_error(std::string_view header, std::size_t data_bytes) {
  const Bytes bytes = raw_file(header, data_bytes);
  return error_of([&] { parse_safetensors(bytes, "x"); });
}

// The error of a file with one tensor of 16 bytes, described by `fields`.
std::string tensor_error(const std::string& fields) {
  return header_error(R"({"w":{)" + fields + "}}", 16);
}

constexpr std::string_view kValid =
    R"({"__metadata__":{"format":"pt"},"b":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]},)"
    R"("a":{"dtype":"BF16","shape":[3],"data_offsets":[16,22]},)"
    R"("none":{"dtype":"I64","shape":[0,7],"data_offsets":[22,22]}}  )";

TEST(ParseSafetensors, ReadsTensorsByPosition) {
  const Bytes bytes = raw_file(kValid, 22);
  const SafetensorsPart part = parse_safetensors(bytes, "x");
  EXPECT_EQ(part.metadata, (std::map<std::string, std::string>{{"format", "pt"}}));
  ASSERT_EQ(part.tensors.size(), 3U);
  EXPECT_EQ(part.tensors[0].name, "b");
  EXPECT_EQ(part.tensors[0].shape, (std::vector<std::int64_t>{2, 2}));
  EXPECT_EQ(part.tensors[1].name, "a");
  EXPECT_EQ(part.tensors[1].dtype, DType::BF16);
  EXPECT_EQ(part.tensors[1].data.size(), 6U);
  EXPECT_EQ(part.tensors[2].data.size(), 0U);
}

TEST(ParseSafetensors, RejectsEveryTruncation) {
  const Bytes bytes = raw_file(kValid, 22);
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    const Bytes cut(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
    const std::string error = error_of([&] { parse_safetensors(cut, "x"); });
    EXPECT_TRUE(error.starts_with("x: ")) << size << " bytes: " << error;
    EXPECT_EQ(error.find('\n'), std::string::npos);
  }
}

TEST(ParseSafetensors, SurvivesFlippedBytes) {
  const Bytes bytes = raw_file(kValid, 22);
  std::mt19937 random(1);
  for (int i = 0; i < 20000; ++i) {
    Bytes broken = bytes;
    for (auto flips = 1 + random() % 3; flips > 0; --flips) {
      broken[random() % broken.size()] = static_cast<std::byte>(random() & 0xFFU);
    }
    error_of([&] { parse_safetensors(broken, "x"); });
  }
}

TEST(ParseSafetensors, RejectsInvalidHeaders) {
  test::RawGguf huge;
  huge.number(std::uint64_t{100'000'001}).zeros(8);
  EXPECT_EQ(error_of([&] { parse_safetensors(huge.bytes(), "x"); }),
            "x: not a safetensors file, or a header of 100000001 bytes; at most 100000000 are "
            "allowed");
  test::RawGguf cut;
  cut.number(std::uint64_t{500}).zeros(8);
  EXPECT_EQ(error_of([&] { parse_safetensors(cut.bytes(), "x"); }),
            "x: header: truncated: needs 500 bytes at byte 8, the end is at 16");
  EXPECT_EQ(header_error("[]", 0), "x: the header does not begin with '{'");
  EXPECT_EQ(header_error("", 0), "x: the header does not begin with '{'");
  EXPECT_TRUE(header_error("{\"a\":", 0).starts_with("x: not valid JSON"));
  EXPECT_EQ(header_error(R"({"a":1,"a":2})", 0), "x: duplicate JSON key \"a\"");
  EXPECT_EQ(header_error(R"({"a":1})", 0), "x: tensor \"a\": is number, expected an object");
  EXPECT_EQ(header_error(R"({"__metadata__":3})", 0),
            "x: __metadata__ is number, expected an object");
  EXPECT_EQ(header_error(R"({"__metadata__":{"k":3}})", 0),
            "x: __metadata__ \"k\" is number, expected a string");
}

TEST(ParseSafetensors, RejectsInvalidTensors) {
  EXPECT_EQ(tensor_error(R"("shape":[4],"data_offsets":[0,16])"), "x: tensor \"w\": has no dtype");
  EXPECT_EQ(tensor_error(R"("dtype":"F32","data_offsets":[0,16])"),
            "x: tensor \"w\": has no shape");
  EXPECT_EQ(tensor_error(R"("dtype":"F32","shape":[4])"), "x: tensor \"w\": has no data_offsets");
  EXPECT_EQ(tensor_error(R"("dtype":3,"shape":[4],"data_offsets":[0,16])"),
            "x: tensor \"w\": dtype is number, expected a string");
  EXPECT_EQ(tensor_error(R"("dtype":"F99","shape":[4],"data_offsets":[0,16])"),
            "x: tensor \"w\": dtype F99 is unknown");
  EXPECT_EQ(tensor_error(R"("dtype":"F8_E5M2FNUZ","shape":[4],"data_offsets":[0,16])"),
            "x: tensor \"w\": dtype F8_E5M2FNUZ is not supported");
  EXPECT_EQ(tensor_error(R"("dtype":"F32","shape":4,"data_offsets":[0,16])"),
            "x: tensor \"w\": shape is number, expected an array");
  EXPECT_EQ(tensor_error(R"("dtype":"F32","shape":[-4],"data_offsets":[0,16])"),
            "x: tensor \"w\": shape has -4, expected an integer from 0 to 2^63 - 1");
  EXPECT_EQ(tensor_error(R"("dtype":"F32","shape":[4.0],"data_offsets":[0,16])"),
            "x: tensor \"w\": shape has 4.0, expected an integer from 0 to 2^63 - 1");
  EXPECT_EQ(tensor_error(R"("dtype":"F32","shape":[4],"data_offsets":[0,9223372036854775808])"),
            "x: tensor \"w\": data_offsets has 9223372036854775808, expected an integer from 0 to "
            "2^63 - 1");
  EXPECT_EQ(tensor_error(R"("dtype":"F32","shape":[4],"data_offsets":[0,16,16])"),
            "x: tensor \"w\": data_offsets has 3 values, expected 2");
  EXPECT_EQ(tensor_error(R"("dtype":"F32","shape":[5],"data_offsets":[0,20])"),
            "x: tensor \"w\": data_offsets 0..20 are not inside the 16 bytes of data");
  EXPECT_EQ(tensor_error(R"("dtype":"F32","shape":[4],"data_offsets":[16,0])"),
            "x: tensor \"w\": data_offsets 16..0 are not inside the 16 bytes of data");
  EXPECT_EQ(tensor_error(R"("dtype":"F32","shape":[3],"data_offsets":[0,16])"),
            "x: tensor \"w\": 16 bytes (0..16), but F32 [3] has 12");
  EXPECT_EQ(tensor_error(R"("dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,16])"),
            "x: tensor \"w\": shape [4294967296, 4294967296] overflows 64 bits");
  EXPECT_EQ(header_error(R"({"a\n":{"dtype":"F32","shape":[],"data_offsets":[0,4]}})", 4),
            "x: tensor \"a?\": the name is empty or has control characters");
}

TEST(ParseSafetensors, RejectsOverlapsAndGaps) {
  const auto two = [](int begin, int end) {
    return header_error(str(R"({"a":{"dtype":"U8","shape":[8],"data_offsets":[0,8]},)",
                            R"("b":{"dtype":"U8","shape":[)", end - begin, R"(],"data_offsets":[)",
                            begin, ",", end, "]}}"),
                        16);
  };
  EXPECT_EQ(two(8, 16), "");
  EXPECT_EQ(two(4, 16), "x: tensors \"a\" and \"b\" overlap: data bytes 0..8 and 4..16");
  EXPECT_EQ(two(10, 16), "x: data bytes 8..10 before tensor \"b\" belong to no tensor");
  EXPECT_EQ(two(8, 12), "x: the tensors end at data byte 12, the file has 16");
  EXPECT_EQ(header_error("{}", 16), "x: the tensors end at data byte 0, the file has 16");
}

std::size_t size_of(const TensorSpec& spec) {
  std::int64_t elems = 1;
  for (const std::int64_t dim : spec.shape)
    elems *= dim;
  return bytes_of(spec.dtype, elems);
}

Bytes data_of(const TensorSpec& spec) {
  return pattern(size_of(spec), static_cast<unsigned>(spec.name.size()));
}

void expect_tensor(const SafetensorsFile& file, const TensorSpec& spec) {
  const auto place = std::ranges::find(file.tensors(), spec.name, &TensorInfo::name);
  ASSERT_NE(place, file.tensors().end()) << spec.name;
  EXPECT_EQ(place->dtype, spec.dtype);
  EXPECT_EQ(place->shape, spec.shape);
  EXPECT_TRUE(std::ranges::equal(place->data, data_of(spec))) << spec.name;
  file.release(*place);
}

TEST(SafetensorsFile, ReturnsEveryDtype) {
  std::vector<TensorSpec> specs = {{"scalar", DType::F32, {}}, {"none", DType::F16, {3, 0}}};
  for (const DTypeInfo& row : kDTypes) {
    if (!row.safetensors.empty()) specs.push_back({std::string(row.name), row.type, {3, 5}});
  }
  specs.push_back({"last \"quoted\" \xC3\xA4", DType::U8, {0}});
  const TempDir folder;
  SafetensorsWriter writer(folder / "x.safetensors", {{"format", "pt"}, {"line", "a\nb"}}, specs);
  for (const TensorSpec& spec : specs)
    writer.append(data_of(spec));
  writer.finish();
  EXPECT_EQ(writer.file_bytes(), std::filesystem::file_size(folder / "x.safetensors"));

  const SafetensorsFile file(folder / "x.safetensors");
  EXPECT_EQ(file.metadata().at("line"), "a\nb");
  EXPECT_EQ(file.tensors().size(), specs.size());
  for (const TensorSpec& spec : specs)
    expect_tensor(file, spec);
}

// The same tensors written again are the same tensors.
void expect_same_when_copied(const SafetensorsFile& file) {
  std::vector<TensorSpec> specs;
  specs.reserve(file.tensors().size());
  for (const TensorInfo& tensor : file.tensors()) {
    specs.push_back({tensor.name, tensor.dtype, tensor.shape});
  }
  const TempDir folder;
  SafetensorsWriter writer(folder / "x", file.metadata(), specs);
  for (const TensorInfo& tensor : file.tensors())
    writer.append(tensor.data);
  writer.finish();
  const SafetensorsFile copy(folder / "x");
  EXPECT_EQ(copy.metadata(), file.metadata());
  EXPECT_TRUE(std::ranges::equal(copy.tensors(), file.tensors(),
                                 [](const TensorInfo& a, const TensorInfo& b) {
                                   return a.name == b.name && a.dtype == b.dtype &&
                                          a.shape == b.shape && std::ranges::equal(a.data, b.data);
                                 }));
}

TEST(SafetensorsFile, ReadsRealCheckpoints) {
  std::size_t num_tensors = 0;
  for (const auto& folder : golden_checkpoints()) {
    const SafetensorsFile file(folder / "model.safetensors");
    num_tensors += file.tensors().size();
    expect_same_when_copied(file);
  }
  EXPECT_GT(num_tensors, 100U);
}

}  // namespace
}  // namespace graft::formats
