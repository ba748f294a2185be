// Writes a file of packed weights (packed_file.h) one matrix at a time, so that it can be larger
// than memory. The path holds a complete file or none.

#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "graft/base/system/new_file.h"
#include "graft/packing/packed_file.h"
#include "graft/tensor/shared_bytes.h"

namespace graft::packing {

class PackedWriter {
 public:
  // drop_pages: written pages leave the page cache, for files larger than memory. Throws Error when
  // the file cannot be created.
  PackedWriter(const std::filesystem::path& path, std::uint64_t fingerprint, bool drop_pages);
  PackedWriter(const PackedWriter&) = delete;
  PackedWriter& operator=(const PackedWriter&) = delete;
  ~PackedWriter();  // without finish(): removes the partial file

  // Returns the bytes as mapped from the new file; they stay mapped without the writer. Throws
  // Error when they cannot be written.
  SharedBytes append(const PackedTensor& tensor);
  void finish();

 private:
  class Window;

  SharedBytes map(std::uint64_t offset, std::size_t bytes);
  void write_back();

  NewFile file_;
  std::uint64_t fingerprint_;
  bool drop_pages_;
  std::vector<PackedTensor> tensors_;  // `bytes` has the size only: the data may be gone
  std::vector<std::uint64_t> offsets_;
  std::shared_ptr<const Window> window_;  // maps the end of the file
  std::uint64_t written_back_ = 0;        // bytes on disk
  std::uint64_t started_ = 0;             // bytes whose write-back was started
};

}  // namespace graft::packing
