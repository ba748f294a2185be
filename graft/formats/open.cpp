#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "graft/base/error.h"
#include "graft/base/system/mapped_file.h"
#include "graft/formats/gguf/gguf_source.h"
#include "graft/formats/huggingface/hf_folder.h"
#include "graft/formats/mistaken_file.h"
#include "graft/formats/weight_source.h"

namespace graft::formats {
namespace {

using FileBytes = std::span<const std::byte>;

bool starts_with(FileBytes bytes, std::string_view text) {
  return bytes.size() >= text.size() && std::memcmp(bytes.data(), text.data(), text.size()) == 0;
}

// Eight bytes of header length, then the header, a JSON object.
bool looks_like_safetensors(FileBytes bytes) {
  constexpr std::size_t kLengthBytes = 8;
  if (bytes.size() <= kLengthBytes || bytes[kLengthBytes] != std::byte{'{'}) return false;
  std::uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, bytes.data(), kLengthBytes);
  return header_bytes <= bytes.size() - kLengthBytes;
}

bool looks_like_json(FileBytes bytes) {
  const auto is_space = [](std::byte byte) {
    return byte == std::byte{' '} || byte == std::byte{'\t'} || byte == std::byte{'\n'} ||
           byte == std::byte{'\r'};
  };
  const auto first = std::ranges::find_if_not(bytes, is_space);
  return first != bytes.end() && *first == std::byte{'{'};
}

std::string in_hex(FileBytes bytes) {
  constexpr std::size_t kShown = 8;
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const std::byte byte : bytes.first(std::min(bytes.size(), kShown))) {
    const auto value = std::to_integer<unsigned>(byte);
    text += str(text.empty() ? "" : " ", kDigits[value >> 4U], kDigits[value & 15U]);
  }
  return text;
}

std::unique_ptr<WeightSource> open_by_content(const std::filesystem::path& path) {
  if (!std::filesystem::exists(path)) fail(path.string(), ": no such file or folder");
  if (std::filesystem::is_directory(path)) return open_hf_folder(path);

  const MappedFile file(path);
  const FileBytes bytes = file.bytes();
  if (starts_with(bytes, "GGUF")) return open_gguf(path);
  refuse_mistaken_file(path.string(), bytes);
  if (path.extension() == ".safetensors" || looks_like_safetensors(bytes)) {
    return open_safetensors_file(path);
  }
  if (path.extension() == ".json" || looks_like_json(bytes)) return open_hf_config(path);
  fail(path.string(), ": neither GGUF nor safetensors nor a config.json, its first bytes are ",
       in_hex(bytes));
}

}  // namespace

std::unique_ptr<WeightSource> open_weights(const std::filesystem::path& path) {
  try {
    return open_by_content(path);
  } catch (const std::filesystem::filesystem_error& error) {
    fail(path.string(), ": ", error.code().message());  // permissions, I/O errors
  }
}

}  // namespace graft::formats
