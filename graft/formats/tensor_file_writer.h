// A file of tensors written front to back: a header, then the data of each tensor, padded. The path
// holds a complete file or none (NewFile).

#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "graft/base/system/new_file.h"

namespace graft::formats {

class TensorFileWriter {
 public:
  // The header must end on a multiple of `alignment`. Throws Error when the file cannot be written.
  TensorFileWriter(const std::filesystem::path& path,
                   std::span<const std::byte> header,
                   std::vector<std::uint64_t> tensor_bytes,
                   std::uint64_t alignment);
  // The next bytes of the current tensor. Throws Error when they cannot be written.
  void append(std::span<const std::byte> data);
  void finish();

  std::uint64_t file_bytes() const { return file_bytes_; }  // of the finished file

 private:
  void write(std::span<const std::byte> data);
  void write_padding(std::uint64_t num_bytes);
  void flush();
  void skip_finished_tensors();

  NewFile file_;
  std::vector<std::byte> buffer_;

  std::vector<std::uint64_t> tensor_bytes_;
  std::uint64_t alignment_ = 1;
  std::uint64_t file_bytes_ = 0;
  std::size_t tensor_idx_ = 0;         // the tensor that append() continues
  std::uint64_t bytes_of_tensor_ = 0;  // bytes of it written
};

}  // namespace graft::formats
