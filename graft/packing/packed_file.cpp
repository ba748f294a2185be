#include "graft/packing/packed_file.h"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <unordered_set>
#include <utility>

#include <xxhash.h>

#include "graft/base/error.h"
#include "graft/formats/byte_reader.h"
#include "graft/packing/panel_layout.h"

namespace graft::packing {
namespace {

constexpr std::string_view kMagic = "GRAFTPAK";
constexpr std::uint32_t kFormat = 2;
// Of the header without its padding and its last field, the checksum.
constexpr std::size_t kHashedHeaderBytes = 40;
// Max rows and max columns of a matrix: 2^60 elements of at most 2 bytes, a count that fits int64.
constexpr std::int64_t kMaxDim = std::int64_t{1} << 30;
// Bytes per hash; threads hash chunks in parallel.
constexpr std::size_t kHashChunkBytes = std::size_t{256} << 10;
// A row of the table with an empty name and type: two lengths and five fields.
constexpr std::size_t kMinTensorBytes = 7 * sizeof(std::uint64_t);

std::uint64_t hash_of(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

class FieldWriter {
 public:
  void text(std::string_view text) { bytes_ += text; }
  void string(std::string_view value) {
    number<std::uint64_t>(value.size());
    text(value);
  }
  template <class T>
  void number(T value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  std::string take() { return std::move(bytes_); }
  std::span<const std::byte> bytes() const { return std::as_bytes(std::span(bytes_)); }

 private:
  std::string bytes_;
};

// Of the header's first bytes, then of the table.
std::uint64_t hash_of(std::span<const std::byte> header, std::span<const std::byte> table) {
  return XXH3_64bits_withSeed(table.data(), table.size(), hash_of(header));
}

void expect_version(std::string_view what,
                    std::uint32_t found,
                    std::uint32_t known,
                    const formats::ByteReader& in) {
  if (found == known) return;
  in.fail_here(str(what, " version ", found, ", this program supports ", known));
}

// Reads a row of the table. `data` is the file before the table; `end` is the offset at which the
// previous tensor ends, and is moved to the end of this one.
PackedTensor read_tensor(formats::ByteReader& in,
                         std::span<const std::byte> data,
                         std::uint64_t& end) {
  PackedTensor tensor;
  tensor.name = in.string();
  in.enter(tensor.name);
  const std::string_view type = in.string();
  const auto dtype = dtype_from_name(type);
  if (!dtype || !has_packed_layout(*dtype)) in.fail_here(str("'", type, "' has no packed layout"));
  tensor.dtype = *dtype;
  tensor.rows = in.number<std::int64_t>();
  tensor.cols = in.number<std::int64_t>();
  const auto offset = in.number<std::uint64_t>();
  const auto num_bytes = in.number<std::uint64_t>();
  tensor.hash = in.number<std::uint64_t>();
  if (tensor.rows < 1 || tensor.rows > kMaxDim || tensor.cols < 1 || tensor.cols > kMaxDim ||
      tensor.cols % info(tensor.dtype).block_elems != 0)
    in.fail_here(str("[", tensor.rows, ", ", tensor.cols, "] is not a valid shape for ", type));
  const auto needed =
      static_cast<std::uint64_t>(packed_bytes(tensor.dtype, tensor.rows, tensor.cols));
  if (num_bytes != needed) {
    in.fail_here(str(num_bytes, " bytes, but [", tensor.rows, ", ", tensor.cols, "] of ", type,
                     " needs ", needed));
  }
  if (offset % kPackedAlignment != 0 || offset < end) {
    in.fail_here(str("offset ", offset, " is unaligned or before ", end,
                     ", the end of the previous tensor"));
  }
  if (offset > data.size() || num_bytes > data.size() - offset) {
    in.fail_here(str("truncated: ", num_bytes, " bytes at offset ", offset,
                     ", the table begins at ", data.size()));
  }
  tensor.bytes = data.subspan(offset, num_bytes);
  end = offset + num_bytes;
  return tensor;
}

}  // namespace

PackedFile parse_packed(std::span<const std::byte> bytes, const std::string& where) {
  formats::ByteReader in(bytes, where);
  if (bytes.size() < kMagic.size() ||
      std::memcmp(in.take(kMagic.size()).data(), kMagic.data(), kMagic.size()) != 0)
    fail(where, ": not a packed weights file");
  expect_version("format", in.number<std::uint32_t>(), kFormat, in);
  expect_version("layout", in.number<std::uint32_t>(), kPanelLayoutVersion, in);
  PackedFile file;
  file.fingerprint = in.number<std::uint64_t>();
  const auto table_offset = in.number<std::uint64_t>();
  const auto table_bytes = in.number<std::uint64_t>();
  const auto hash = in.number<std::uint64_t>();
  in.enter("table");
  if (table_offset > bytes.size() || table_bytes > bytes.size() - table_offset) {
    in.fail_here(str("truncated: ", table_bytes, " bytes at offset ", table_offset,
                     ", the file has ", bytes.size()));
  }
  const auto table_data = bytes.subspan(table_offset, table_bytes);
  if (hash_of(bytes.first(kHashedHeaderBytes), table_data) != hash)
    in.fail_here(str("damaged: the checksum of its ", table_bytes, " bytes does not match"));

  formats::ByteReader table(table_data, where);
  const auto data = bytes.first(table_offset);
  const std::uint64_t num_tensors = table.count("tensors", kMinTensorBytes);
  std::unordered_set<std::string_view> names;
  std::uint64_t end = kPackedAlignment;
  file.tensors.reserve(num_tensors);
  for (std::uint64_t i = 0; i < num_tensors; ++i) {
    file.tensors.push_back(read_tensor(table, data, end));
    if (!names.insert(file.tensors.back().name).second) table.fail_here("duplicate name");
  }
  return file;
}

std::string packed_table(std::span<const PackedTensor> tensors,
                         std::span<const std::uint64_t> offsets) {
  FieldWriter table;
  table.number<std::uint64_t>(tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const PackedTensor& tensor = tensors[i];
    table.string(tensor.name);
    table.string(name(tensor.dtype));
    table.number(tensor.rows);
    table.number(tensor.cols);
    table.number(offsets[i]);
    table.number<std::uint64_t>(tensor.bytes.size());
    table.number(tensor.hash);
  }
  return table.take();
}

std::string packed_header(std::uint64_t fingerprint,
                          std::uint64_t table_offset,
                          std::string_view table) {
  FieldWriter header;
  header.text(kMagic);
  header.number(kFormat);
  header.number(kPanelLayoutVersion);
  header.number(fingerprint);
  header.number(table_offset);
  header.number<std::uint64_t>(table.size());
  header.number(hash_of(header.bytes(), std::as_bytes(std::span(table))));
  std::string bytes = header.take();
  bytes.resize(kPackedAlignment);
  return bytes;
}

std::uint64_t hash_panels(std::span<const std::byte> bytes, ThreadPool* pool) {
  std::vector<std::uint64_t> hashes((bytes.size() + kHashChunkBytes - 1) / kHashChunkBytes);
  const auto hash_chunk = [&](std::size_t i) {
    const auto rest = bytes.subspan(i * kHashChunkBytes);
    hashes[i] = hash_of(rest.first(std::min(rest.size(), kHashChunkBytes)));
  };
  if (pool != nullptr) {
    pool->parallel_for(hashes.size(), hash_chunk);
  } else {
    for (std::size_t i = 0; i < hashes.size(); ++i)
      hash_chunk(i);
  }
  return hash_of(std::as_bytes(std::span(hashes)));
}

}  // namespace graft::packing
