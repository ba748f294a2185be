#include "graft/formats/safetensors/safetensors_file.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include "graft/base/check.h"
#include "graft/base/error.h"
#include "graft/base/text/json.h"
#include "graft/formats/byte_reader.h"
#include "graft/formats/mistaken_file.h"
#include "graft/formats/tensor_spec.h"

namespace graft::formats {
namespace {

constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;  // the reference implementation's limit

// Types of the format that are not supported here.
constexpr std::array<std::string_view, 6> kUnsupported = {"F4",          "F6_E2M3",     "F6_E3M2",
                                                          "F8_E4M3FNUZ", "F8_E5M2FNUZ", "C64"};

// One tensor of the header, named for messages.
struct Entry {
  const Json& json;
  std::string subject;
};

const Json& field(const Entry& entry, const char* key, Json::value_t type, std::string_view kind) {
  const auto place = entry.json.find(key);
  if (place == entry.json.end()) fail(entry.subject, ": has no ", key);
  if (place->type() != type) {
    fail(entry.subject, ": ", key, " is ", place->type_name(), ", expected ", kind);
  }
  return *place;
}

// JSON integers of an array; `key` is for the message.
std::vector<std::int64_t> integers(const Entry& entry, const char* key) {
  const Json& array = field(entry, key, Json::value_t::array, "an array");
  std::vector<std::int64_t> values;
  values.reserve(array.size());
  for (const Json& value : array) {
    constexpr auto kMax = std::numeric_limits<std::int64_t>::max();
    if (!value.is_number_unsigned() || std::cmp_greater(value.get<std::uint64_t>(), kMax)) {
      fail(entry.subject, ": ", key, " has ", printable(value.dump()),
           ", expected an integer from 0 to 2^63 - 1");
    }
    values.push_back(value.get<std::int64_t>());
  }
  return values;
}

DType dtype_of(const Entry& entry) {
  const auto& text =
      field(entry, "dtype", Json::value_t::string, "a string").get_ref<const std::string&>();
  if (const auto dtype = dtype_from_safetensors(text)) return *dtype;
  if (text == "F8_E8M0") return DType::U8;  // exponents, as other checkpoints store them
  const bool known = std::ranges::find(kUnsupported, text) != kUnsupported.end();
  fail(entry.subject, ": dtype ", printable(text), known ? " is not supported" : " is unknown");
}

struct Placed {
  TensorInfo info;
  ByteRange range;  // in the data section
};

Placed read_tensor(const std::string& name, const Entry& entry, std::uint64_t data_bytes) {
  if (!entry.json.is_object()) {
    fail(entry.subject, ": is ", entry.json.type_name(), ", expected an object");
  }
  if (name.empty() || !is_clean_text(name)) {
    fail(entry.subject, ": the name is empty or has control characters");
  }
  Placed placed;
  placed.info.name = name;
  placed.info.dtype = dtype_of(entry);
  placed.info.shape = integers(entry, "shape");
  const std::uint64_t bytes = tensor_bytes(entry.subject, placed.info.dtype, placed.info.shape, 0);
  const auto offsets = integers(entry, "data_offsets");
  if (offsets.size() != 2) {
    fail(entry.subject, ": data_offsets has ", offsets.size(), " values, expected 2");
  }
  const auto begin = static_cast<std::uint64_t>(offsets[0]);
  const auto end = static_cast<std::uint64_t>(offsets[1]);
  if (begin > end || end > data_bytes) {
    fail(entry.subject, ": data_offsets ", begin, "..", end, " are not inside the ", data_bytes,
         " bytes of data");
  }
  if (end - begin != bytes) {
    fail(entry.subject, ": ", end - begin, " bytes (", begin, "..", end, "), but ",
         graft::name(placed.info.dtype), " ", shape_text(placed.info.shape), " has ", bytes);
  }
  placed.range = {begin, end, 0};
  return placed;
}

std::map<std::string, std::string> read_metadata(const Json& json, const std::string& where) {
  if (!json.is_object()) {
    fail(where, ": ", kMetadataKey, " is ", json.type_name(), ", expected an object");
  }
  std::map<std::string, std::string> metadata;
  for (const auto& [key, value] : json.items()) {
    if (!value.is_string()) {
      fail(where, ": ", kMetadataKey, " \"", printable(key), "\" is ", value.type_name(),
           ", expected a string");
    }
    metadata.emplace(key, value.get_ref<const std::string&>());
  }
  return metadata;
}

// Every byte of the data must belong to exactly one tensor.
void check_cover(const std::vector<ByteRange>& ranges,
                 const std::vector<Placed>& tensors,
                 std::uint64_t data_bytes,
                 const std::string& where) {
  std::uint64_t covered = 0;
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    const ByteRange& range = ranges[i];
    if (range.begin < covered) {
      fail(where, ": tensors \"", printable(tensors[ranges[i - 1].owner].info.name), "\" and \"",
           printable(tensors[range.owner].info.name), "\" overlap: data bytes ",
           ranges[i - 1].begin, "..", ranges[i - 1].end, " and ", range.begin, "..", range.end);
    }
    if (range.begin > covered) {
      fail(where, ": data bytes ", covered, "..", range.begin, " before tensor \"",
           printable(tensors[range.owner].info.name), "\" belong to no tensor");
    }
    covered = range.end;
  }
  if (covered != data_bytes) {
    fail(where, ": the tensors end at data byte ", covered, ", the file has ", data_bytes);
  }
}

std::string_view read_header(ByteReader& reader,
                             std::span<const std::byte> file,
                             const std::string& where) {
  const auto header_bytes = reader.number<std::uint64_t>();
  if (header_bytes > kMaxHeaderBytes) {
    refuse_mistaken_file(where, file);
    fail(where, ": not a safetensors file, or a header of ", header_bytes, " bytes; at most ",
         kMaxHeaderBytes, " are allowed");
  }
  reader.enter("header");
  const auto bytes = reader.take(header_bytes);
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (!text.starts_with('{')) fail(where, ": the header does not begin with '{'");
  return text;
}

}  // namespace

SafetensorsPart parse_safetensors(std::span<const std::byte> file, const std::string& where) {
  ByteReader reader(file, where);
  const Json header = parse_json(read_header(reader, file, where), where);
  const auto data = reader.take(reader.remaining());

  SafetensorsPart part;
  std::vector<Placed> tensors;
  std::vector<ByteRange> ranges;
  for (const auto& [name, value] : header.items()) {
    if (name == kMetadataKey) {
      part.metadata = read_metadata(value, where);
      continue;
    }
    const Entry entry{value, where + ": tensor \"" + printable(name) + "\""};
    tensors.push_back(read_tensor(name, entry, data.size()));
    ranges.push_back(tensors.back().range);
    ranges.back().owner = tensors.size() - 1;
  }
  sort_ranges(ranges);
  check_cover(ranges, tensors, data.size(), where);
  part.tensors.reserve(tensors.size());
  for (const ByteRange& range : ranges) {
    part.tensors.push_back(std::move(tensors[range.owner].info));
    part.tensors.back().data = data.subspan(range.begin, range.end - range.begin);
  }
  return part;
}

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path)
    : path_(path), file_(path), part_(parse_safetensors(file_.bytes(), path.string())) {}

void SafetensorsFile::release(const TensorInfo& tensor) const {
  file_.release(tensor.data);
}

}  // namespace graft::formats
