#include "graft/formats/safetensors/safetensors_writer.h"

#include <string_view>
#include <unordered_set>
#include <utility>

#include "graft/base/error.h"
#include "graft/base/text/json.h"
#include "graft/formats/safetensors/safetensors_file.h"
#include "graft/formats/tensor_file_writer.h"

namespace graft::formats {
namespace {

constexpr std::size_t kHeaderAlignment = 8;

// Written as text: a Json object would sort its keys, but the tensors keep the caller's order.
std::string quoted(const std::string& text) {
  return Json(text).dump();
}

std::string metadata_text(const std::map<std::string, std::string>& metadata,
                          const std::string& where) {
  std::string text = quoted(std::string(kMetadataKey)) + ":{";
  for (const auto& [key, value] : metadata) {
    if (!is_utf8(key) || !is_utf8(value)) {
      fail(where, ": metadata \"", printable(key), "\" is not UTF-8");
    }
    if (text.back() != '{') text += ',';
    text += quoted(key) + ':' + quoted(value);
  }
  return text + "}";
}

std::uint64_t safetensors_tensor_bytes(const TensorSpec& tensor, const std::string& where) {
  const std::string subject = where + ": tensor \"" + printable(tensor.name) + "\"";
  if (tensor.name.empty() || tensor.name == kMetadataKey || !is_clean_text(tensor.name)) {
    fail(subject, ": safetensors cannot store this name");
  }
  if (info(tensor.dtype).safetensors.empty()) {
    fail(subject, ": ", name(tensor.dtype), " cannot be stored in safetensors");
  }
  return tensor_bytes(subject, tensor.dtype, tensor.shape, 0);
}

std::string tensor_text(const TensorSpec& tensor, std::uint64_t begin, std::uint64_t end) {
  std::string text = quoted(tensor.name) + R"(:{"dtype":")";
  text += info(tensor.dtype).safetensors;
  text += R"(","shape":[)";
  for (std::size_t i = 0; i < tensor.shape.size(); ++i) {
    text += (i == 0 ? "" : ",") + std::to_string(tensor.shape[i]);
  }
  text += R"(],"data_offsets":[)" + std::to_string(begin) + ',' + std::to_string(end) + "]}";
  return text;
}

}  // namespace

SafetensorsWriter::SafetensorsWriter(const std::filesystem::path& path,
                                     const std::map<std::string, std::string>& metadata,
                                     const std::vector<TensorSpec>& tensors) {
  const std::string where = path.string();
  // Space for the length, which is known at the end.
  std::string header(sizeof(std::uint64_t), '\0');
  header += '{';
  if (!metadata.empty()) header += metadata_text(metadata, where);
  std::vector<std::uint64_t> sizes;
  std::unordered_set<std::string_view> names;
  std::uint64_t begin = 0;
  for (const TensorSpec& tensor : tensors) {
    sizes.push_back(safetensors_tensor_bytes(tensor, where));
    if (!names.insert(tensor.name).second) {
      fail(where, ": tensor \"", tensor.name, "\": is a duplicate");
    }
    if (header.back() != '{') header += ',';
    header += tensor_text(tensor, begin, begin + sizes.back());
    begin += sizes.back();
  }
  header += '}';
  while (header.size() % kHeaderAlignment != 0)
    header += ' ';
  const std::uint64_t header_bytes = header.size() - sizeof(std::uint64_t);
  for (std::size_t i = 0; i < sizeof(std::uint64_t); ++i) {
    header[i] = static_cast<char>(header_bytes >> (8 * i) & 0xFFU);
  }
  file_ = std::make_unique<TensorFileWriter>(path, std::as_bytes(std::span(header)),
                                             std::move(sizes), 1);
}

SafetensorsWriter::~SafetensorsWriter() = default;

void SafetensorsWriter::append(std::span<const std::byte> data) {
  file_->append(data);
}

void SafetensorsWriter::finish() {
  file_->finish();
}

std::uint64_t SafetensorsWriter::file_bytes() const {
  return file_->file_bytes();
}

}  // namespace graft::formats
