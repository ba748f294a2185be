#include "graft/formats/gguf/gguf_part.h"

#include <algorithm>
#include <array>
#include <bit>
#include <optional>
#include <type_traits>
#include <unordered_set>
#include <utility>

#include "graft/base/error.h"
#include "graft/formats/tensor_spec.h"

namespace graft::formats {
namespace {

constexpr std::string_view kAlignmentKey = "general.alignment";
constexpr std::uint64_t kDefaultAlignment = 32;
constexpr std::size_t kMaxNameBytes = 65535;
// Published files do not nest arrays; the limit bounds the recursion.
constexpr int kMaxArrayDepth = 4;

// The minimum sizes of a key with its value and of a tensor's entry, to check counts against.
constexpr std::size_t kMinEntryBytes = 8 + 1 + 4 + 1;       // key, type, a one-byte value
constexpr std::size_t kMinTensorBytes = 8 + 1 + 4 + 4 + 8;  // name, no dims, type, offset
constexpr std::size_t kMinStringBytes = 8;
constexpr std::size_t kMinArrayBytes = 4 + 8;

// Types that llama.cpp removed: repacked Q4_0 and IQ4_NL, and the first Q4 formats.
constexpr std::array<std::uint32_t, 8> kRemovedTypes = {4, 5, 31, 32, 33, 36, 37, 38};

// Bytes of one element by type number, 0 for types with a length field.
constexpr std::array<std::size_t, 13> kElementBytes = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

std::string quoted(std::string_view what, std::string_view name) {
  std::string text(what);
  text += " \"";
  text += printable(name);
  text += '"';
  return text;
}

GgufType read_type(ByteReader& reader) {
  const auto number = reader.number<std::uint32_t>();
  if (number >= kElementBytes.size()) {
    reader.fail_here(str("metadata type ", number, " is unknown"));
  }
  return static_cast<GgufType>(number);
}

std::size_t min_element_bytes(GgufType type) {
  if (type == GgufType::String) return kMinStringBytes;
  if (type == GgufType::Array) return kMinArrayBytes;
  return kElementBytes[static_cast<std::size_t>(type)];
}

void check_bools(const ByteReader& reader, std::span<const std::byte> bools) {
  const auto bad =
      std::ranges::find_if(bools, [](std::byte value) { return value > std::byte{1}; });
  if (bad != bools.end()) {
    reader.fail_here(str("a bool is ", std::to_integer<int>(*bad), ", only 0 and 1 are allowed"));
  }
}

void skip_elements(ByteReader& reader, GgufType type, std::uint64_t count, int depth) {
  if (type == GgufType::String) {
    for (std::uint64_t i = 0; i < count; ++i)
      reader.string();
  } else if (type == GgufType::Array) {
    if (depth == kMaxArrayDepth) {
      reader.fail_here(str("arrays nested deeper than ", kMaxArrayDepth));
    }
    for (std::uint64_t i = 0; i < count; ++i) {
      const GgufType inner = read_type(reader);
      skip_elements(reader, inner, reader.count("elements", min_element_bytes(inner)), depth + 1);
    }
  } else {
    // The count was checked against the remaining bytes, so the product does not overflow.
    const auto elements = reader.take(count * kElementBytes[static_cast<std::size_t>(type)]);
    if (type == GgufType::Bool) check_bools(reader, elements);
  }
}

GgufArray read_array(ByteReader& reader) {
  GgufArray array;
  array.type = read_type(reader);
  array.count = reader.count("elements", min_element_bytes(array.type));
  const std::size_t begin = reader.position();
  skip_elements(reader, array.type, array.count, 1);
  const auto elements = reader.since(begin);
  array.bytes.assign(elements.begin(), elements.end());
  return array;
}

GgufValue read_value(ByteReader& reader, GgufType type) {
  switch (type) {
    case GgufType::U8:
      return reader.number<std::uint8_t>();
    case GgufType::I8:
      return reader.number<std::int8_t>();
    case GgufType::U16:
      return reader.number<std::uint16_t>();
    case GgufType::I16:
      return reader.number<std::int16_t>();
    case GgufType::U32:
      return reader.number<std::uint32_t>();
    case GgufType::I32:
      return reader.number<std::int32_t>();
    case GgufType::F32:
      return reader.number<float>();
    case GgufType::U64:
      return reader.number<std::uint64_t>();
    case GgufType::I64:
      return reader.number<std::int64_t>();
    case GgufType::F64:
      return reader.number<double>();
    case GgufType::String:
      return std::string(reader.string());
    case GgufType::Array:
      return read_array(reader);
    case GgufType::Bool: {
      const auto value = reader.take(1);
      check_bools(reader, value);
      return value[0] != std::byte{0};
    }
  }
  reader.fail_here("metadata type out of range");  // unreachable: read_type() checks
}

std::uint32_t read_version(ByteReader& reader) {
  const auto magic = reader.number<std::uint32_t>();
  if (magic != kGgufMagic) {
    const auto bytes = std::bit_cast<std::array<char, 4>>(magic);
    reader.fail_here(
        str("not a GGUF file, it begins with \"", printable({bytes.data(), bytes.size()}), "\""));
  }
  const auto version = reader.number<std::uint32_t>();
  // A byte-swapped small number has zeros in its low half.
  if (version != 0 && (version & 0xFFFFU) == 0) {
    reader.fail_here(str("a big-endian GGUF file (version reads as ", version,
                         "), only little-endian ones are supported"));
  }
  if (version < 2 || version > kGgufVersion) {
    reader.fail_here(str("GGUF version ", version, " is not supported, only 2 and 3 are"));
  }
  return version;
}

void read_entry(ByteReader& reader, std::uint64_t idx, const std::string& where, GgufMetadata& to) {
  reader.enter("metadata key " + std::to_string(idx));
  std::string key(reader.string());
  check_gguf_name(key, where + ": metadata key " + std::to_string(idx));
  reader.enter(quoted("metadata key", key));
  if (to.find(key) != nullptr) reader.fail_here("is a duplicate");
  const GgufType type = read_type(reader);
  to.set(std::move(key), read_value(reader, type));
}

DType read_dtype(ByteReader& reader) {
  const auto number = reader.number<std::uint32_t>();
  if (const std::optional<DType> dtype = dtype_from_ggml(number)) return *dtype;
  if (std::ranges::find(kRemovedTypes, number) != kRemovedTypes.end()) {
    reader.fail_here(str("ggml type ", number, " was removed from the format"));
  }
  reader.fail_here(str("ggml type ", number, " is unknown"));
}

// A tensor of the list, before the start of the data section is known.
struct ListedTensor {
  TensorInfo info;
  std::uint64_t bytes = 0;
  std::uint64_t offset = 0;  // from the start of the data section
};

ListedTensor read_tensor(ByteReader& reader, std::uint64_t idx, const std::string& where) {
  ListedTensor tensor;
  TensorInfo& info = tensor.info;
  reader.enter("tensor " + std::to_string(idx));
  info.name = reader.string();
  check_gguf_name(info.name, where + ": tensor " + std::to_string(idx));
  const std::string subject = quoted("tensor", info.name);
  reader.enter(subject);
  const auto num_dims = reader.number<std::uint32_t>();
  if (num_dims > kGgufMaxDims) {
    reader.fail_here(str(num_dims, " dimensions, the maximum is ", kGgufMaxDims));
  }
  info.shape.resize(num_dims);
  // The file stores the innermost dimension first.
  for (std::uint32_t i = 0; i < num_dims; ++i) {
    info.shape[num_dims - 1 - i] = reader.number<std::int64_t>();
  }
  info.dtype = read_dtype(reader);
  tensor.offset = reader.number<std::uint64_t>();
  tensor.bytes = tensor_bytes(where + ": " + subject, info.dtype, info.shape, 1);
  return tensor;
}

void check_names_differ(const std::vector<ListedTensor>& tensors, const std::string& where) {
  std::unordered_set<std::string_view> names;
  names.reserve(tensors.size());
  for (const ListedTensor& tensor : tensors) {
    if (!names.insert(tensor.info.name).second) {
      fail(where, ": ", quoted("tensor", tensor.info.name), ": is a duplicate");
    }
  }
}

void check_overlaps(std::vector<ByteRange> ranges,
                    const std::vector<ListedTensor>& tensors,
                    const std::string& where) {
  sort_ranges(ranges);
  for (std::size_t i = 1; i < ranges.size(); ++i) {
    const ByteRange& left = ranges[i - 1];
    const ByteRange& right = ranges[i];
    if (right.begin < left.end) {
      fail(where, ": ", quoted("tensors", tensors[left.owner].info.name),
           quoted(" and", tensors[right.owner].info.name), " overlap: bytes ", left.begin, "..",
           left.end, " and ", right.begin, "..", right.end);
    }
  }
}

// Sets the bytes of every tensor; `data_begin` is the file offset of the data section.
void place_data(std::vector<ListedTensor>& tensors,
                std::span<const std::byte> file,
                std::uint64_t data_begin,
                std::uint64_t alignment,
                const std::string& where) {
  std::vector<ByteRange> ranges;
  ranges.reserve(tensors.size());
  for (ListedTensor& tensor : tensors) {
    const std::uint64_t offset = tensor.offset;
    if (offset % alignment != 0) {
      fail(where, ": ", quoted("tensor", tensor.info.name), ": offset ", offset,
           " is not a multiple of the alignment ", alignment);
    }
    // Compared without sums, which could wrap around.
    if (data_begin > file.size() || offset > file.size() - data_begin ||
        tensor.bytes > file.size() - data_begin - offset) {
      fail(where, ": ", quoted("tensor", tensor.info.name), ": needs ", tensor.bytes,
           " bytes at byte ", data_begin, " + ", offset, " (bytes ", data_begin + offset, "..",
           data_begin + offset + tensor.bytes, "), the file has ", file.size(),
           ": cut off, perhaps an incomplete download");
    }
    const std::uint64_t begin = data_begin + offset;
    tensor.info.data = file.subspan(begin, tensor.bytes);
    ranges.push_back({begin, begin + tensor.bytes, ranges.size()});
  }
  check_overlaps(std::move(ranges), tensors, where);
}

}  // namespace

std::uint64_t gguf_alignment(const GgufMetadata& metadata, const std::string& where) {
  const GgufValue* value = metadata.find(kAlignmentKey);
  if (value == nullptr) return kDefaultAlignment;
  const auto* alignment = std::get_if<std::uint32_t>(value);
  if (alignment == nullptr) {
    fail(where, ": ", kAlignmentKey, " is ", name(type_of(*value)), ", expected u32");
  }
  if (*alignment < 8 || !std::has_single_bit(*alignment)) {
    fail(where, ": ", kAlignmentKey, " is ", *alignment, ", expected a power of two of at least 8");
  }
  return *alignment;
}

void check_gguf_name(std::string_view name, const std::string& subject) {
  if (name.empty()) fail(subject, ": the name is empty");
  if (name.size() > kMaxNameBytes) {
    fail(subject, ": the name has ", name.size(), " bytes, the maximum is ", kMaxNameBytes);
  }
  if (!is_clean_text(name)) {
    fail(subject, ": the name \"", printable(name), "\" has control characters or is not UTF-8");
  }
}

void skip_gguf_elements(ByteReader& reader, GgufType type, std::uint64_t count) {
  if (static_cast<std::size_t>(type) >= kElementBytes.size()) {
    reader.fail_here(str("metadata type ", static_cast<std::uint32_t>(type), " is unknown"));
  }
  if (count > reader.remaining() / min_element_bytes(type)) {
    reader.fail_here(str(count, " elements in ", reader.remaining(), " bytes"));
  }
  skip_elements(reader, type, count, 1);
}

GgufPart parse_gguf(std::span<const std::byte> file, const std::string& where) {
  ByteReader reader(file, where);
  GgufPart part;
  part.version = read_version(reader);
  const auto num_tensors = reader.count("tensors", kMinTensorBytes);
  const auto num_entries = reader.count("metadata keys", kMinEntryBytes);
  for (std::uint64_t i = 0; i < num_entries; ++i)
    read_entry(reader, i, where, part.metadata);
  const std::uint64_t alignment = gguf_alignment(part.metadata, where);

  std::vector<ListedTensor> tensors;
  tensors.reserve(num_tensors);
  for (std::uint64_t i = 0; i < num_tensors; ++i)
    tensors.push_back(read_tensor(reader, i, where));
  check_names_differ(tensors, where);
  const std::uint64_t data_begin = (reader.position() + alignment - 1) / alignment * alignment;
  place_data(tensors, file, data_begin, alignment, where);

  part.tensors.reserve(tensors.size());
  for (ListedTensor& tensor : tensors)
    part.tensors.push_back(std::move(tensor.info));
  return part;
}

}  // namespace graft::formats
