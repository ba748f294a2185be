#include "graft/formats/gguf/gguf_writer.h"

#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_set>
#include <utility>
#include <variant>

#include "graft/base/error.h"
#include "graft/formats/byte_reader.h"
#include "graft/formats/gguf/gguf_part.h"
#include "graft/formats/tensor_file_writer.h"

namespace graft::formats {
namespace {

// llama.cpp stores tensor names in 64 bytes including the zero and refuses longer ones.
constexpr std::size_t kMaxTensorName = 63;

class GgufBytes {
 public:
  template <class T>
  void number(T value) {
    static_assert(std::is_arithmetic_v<T>);
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof(T));
  }

  void raw(std::span<const std::byte> data) {
    bytes_.append(reinterpret_cast<const char*>(data.data()), data.size());
  }

  void string(std::string_view text) {
    number<std::uint64_t>(text.size());
    bytes_.append(text);
  }

  void pad_to(std::uint64_t alignment) {
    bytes_.resize((bytes_.size() + alignment - 1) / alignment * alignment);
  }

  std::span<const std::byte> span() const { return std::as_bytes(std::span(bytes_)); }

 private:
  std::string bytes_;
};

void put_value(GgufBytes& out, const GgufValue& value) {
  std::visit(
      [&](const auto& stored) {
        using T = std::decay_t<decltype(stored)>;
        if constexpr (std::is_same_v<T, std::string>) {
          out.string(stored);
        } else if constexpr (std::is_same_v<T, GgufArray>) {
          out.number(static_cast<std::uint32_t>(stored.type));
          out.number(stored.count);
          out.raw(stored.bytes);
        } else if constexpr (std::is_same_v<T, bool>) {
          out.number(static_cast<std::uint8_t>(stored ? 1 : 0));
        } else {
          out.number(stored);
        }
      },
      value);
}

// An array is raw bytes: checks that they are its elements.
void check_array(const GgufValue& value, const std::string& subject) {
  const auto* array = std::get_if<GgufArray>(&value);
  if (array == nullptr) return;
  ByteReader reader(array->bytes, subject);
  skip_gguf_elements(reader, array->type, array->count);
  if (reader.remaining() > 0) {
    reader.fail_here(
        str(reader.remaining(), " bytes after the last of ", array->count, " elements"));
  }
}

void put_metadata(GgufBytes& out, const GgufMetadata& metadata, const std::string& where) {
  for (const auto& [key, value] : metadata.entries()) {
    check_gguf_name(key, where + ": metadata key");
    check_array(value, str(where, ": metadata key \"", key, "\""));
    out.string(key);
    out.number(static_cast<std::uint32_t>(type_of(value)));
    put_value(out, value);
  }
}

std::uint64_t gguf_tensor_bytes(const TensorSpec& tensor, const std::string& where) {
  check_gguf_name(tensor.name, where + ": tensor");
  const std::string subject = where + ": tensor \"" + tensor.name + "\"";
  if (tensor.name.size() > kMaxTensorName) {
    fail(subject, ": the name has ", tensor.name.size(), " bytes, the maximum in GGUF is ",
         kMaxTensorName);
  }
  if (info(tensor.dtype).ggml_id < 0) {
    fail(subject, ": ", name(tensor.dtype), " cannot be stored in GGUF");
  }
  if (tensor.shape.size() > kGgufMaxDims) {
    fail(subject, ": ", tensor.shape.size(), " dimensions, the maximum in GGUF is ", kGgufMaxDims);
  }
  return tensor_bytes(subject, tensor.dtype, tensor.shape, 1);
}

void put_tensor(GgufBytes& out, const TensorSpec& tensor, std::uint64_t offset) {
  out.string(tensor.name);
  out.number(static_cast<std::uint32_t>(tensor.shape.size()));
  // The file stores the innermost dimension first.
  for (std::size_t i = tensor.shape.size(); i > 0; --i) {
    out.number(tensor.shape[i - 1]);
  }
  out.number(static_cast<std::uint32_t>(info(tensor.dtype).ggml_id));
  out.number(offset);
}

}  // namespace

GgufWriter::GgufWriter(const std::filesystem::path& path,
                       const GgufMetadata& metadata,
                       const std::vector<TensorSpec>& tensors) {
  const std::string where = path.string();
  const std::uint64_t alignment = gguf_alignment(metadata, where);
  GgufBytes header;
  header.number(kGgufMagic);
  header.number(kGgufVersion);
  header.number<std::uint64_t>(tensors.size());
  header.number<std::uint64_t>(metadata.entries().size());
  put_metadata(header, metadata, where);

  std::vector<std::uint64_t> sizes;
  std::unordered_set<std::string_view> names;
  std::uint64_t offset = 0;
  for (const TensorSpec& tensor : tensors) {
    sizes.push_back(gguf_tensor_bytes(tensor, where));
    if (!names.insert(tensor.name).second) {
      fail(where, ": tensor \"", tensor.name, "\": is a duplicate");
    }
    put_tensor(header, tensor, offset);
    offset += (sizes.back() + alignment - 1) / alignment * alignment;
  }
  header.pad_to(alignment);
  file_ = std::make_unique<TensorFileWriter>(path, header.span(), std::move(sizes), alignment);
}

GgufWriter::~GgufWriter() = default;

void GgufWriter::append(std::span<const std::byte> data) {
  file_->append(data);
}

void GgufWriter::finish() {
  file_->finish();
}

std::uint64_t GgufWriter::file_bytes() const {
  return file_->file_bytes();
}

}  // namespace graft::formats
