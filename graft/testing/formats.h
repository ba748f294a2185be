// For the tests of the file formats: files from bytes, and the bytes of invalid GGUF files.

#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graft/base/error.h"
#include "graft/base/system/temp_dir.h"

namespace graft::formats::test {

using Bytes = std::vector<std::byte>;

inline std::vector<std::string> names_in(const TempDir& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    names.push_back(entry.path().filename().string());
  }
  return names;
}

inline void write_file(const std::filesystem::path& path, std::span<const std::byte> bytes) {
  std::ofstream out(path, std::ios::binary);
  out.write(reinterpret_cast<const char*>(bytes.data()),
            static_cast<std::streamsize>(bytes.size()));
}

inline void write_file(const std::filesystem::path& path, std::string_view text) {
  write_file(path, std::as_bytes(std::span(text)));
}

inline Bytes read_file(const std::filesystem::path& path) {
  // At once: an iterator over characters takes seconds for a model in an unoptimized build.
  std::ifstream in(path, std::ios::binary | std::ios::ate);
  Bytes bytes(in ? static_cast<std::size_t>(in.tellg()) : 0);
  in.seekg(0);
  in.read(reinterpret_cast<char*>(bytes.data()), std::ssize(bytes));
  return bytes;
}

// The message of the Error that `call` throws, empty when it throws none.
template <class Call>
std::string error_of(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// Bytes with a pattern that differs between tensors.
inline Bytes pattern(std::size_t size, unsigned seed) {
  Bytes bytes(size);
  for (std::size_t i = 0; i < size; ++i)
    bytes[i] = static_cast<std::byte>((i * 7 + seed) & 0xFFU);
  return bytes;
}

// Writes the parts of a GGUF file without checking them.
class RawGguf {
 public:
  RawGguf& header(std::uint64_t num_tensors, std::uint64_t num_keys, std::uint32_t version = 3) {
    return text("GGUF").number(version).number(num_tensors).number(num_keys);
  }

  template <class T>
  RawGguf& number(T value) {
    const std::size_t old_size = bytes_.size();
    bytes_.resize(old_size + sizeof(T));
    std::memcpy(bytes_.data() + old_size, &value, sizeof(T));
    return *this;
  }

  RawGguf& text(std::string_view value) {  // without a length
    for (const char c : value)
      bytes_.push_back(static_cast<std::byte>(c));
    return *this;
  }

  RawGguf& string(std::string_view value) {
    return number<std::uint64_t>(value.size()).text(value);
  }

  template <class T>
  RawGguf& key(std::string_view name, std::uint32_t type, T value) {
    return string(name).number(type).number(value);
  }

  // Dimensions as the file has them, innermost first.
  RawGguf& tensor(std::string_view name,
                  const std::vector<std::uint64_t>& dims,
                  std::uint32_t type,
                  std::uint64_t offset) {
    string(name).number(static_cast<std::uint32_t>(dims.size()));
    for (const std::uint64_t dim : dims)
      number(dim);
    return number(type).number(offset);
  }

  RawGguf& pad(std::size_t alignment = 32) {
    bytes_.resize((bytes_.size() + alignment - 1) / alignment * alignment);
    return *this;
  }

  RawGguf& zeros(std::size_t count) {
    bytes_.resize(bytes_.size() + count);
    return *this;
  }

  const Bytes& bytes() const { return bytes_; }

 private:
  Bytes bytes_;
};

}  // namespace graft::formats::test
