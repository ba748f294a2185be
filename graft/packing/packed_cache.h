// The cache of packed weights: a file beside the checkpoint. An existing file is mapped; panels
// that it lacks are added and the file is written again. A damaged or outdated file is a warning,
// never an Error: the weights can be packed again.

#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>

#include "graft/base/parallel.h"
#include "graft/base/system/mapped_file.h"
#include "graft/formats/weight_source.h"
#include "graft/packing/packed_file.h"
#include "graft/packing/stored_matrix.h"
#include "graft/tensor/shared_bytes.h"

namespace graft::packing {

class PackedCache {
 public:
  using Warn = std::function<void(const std::string& line)>;

  // Maps the file if its fingerprint matches the checkpoint. `pool` computes checksums; it may be
  // null, `warn` empty.
  PackedCache(const formats::WeightSource& source, ThreadPool* pool, Warn warn);

  // The checkpoint's first file with ".graft-packed" appended.
  static std::filesystem::path path_for(const formats::WeightSource& source);

  // The panels of a matrix with this name, type and shape; no bytes: not cached. Verifies the
  // checksum at the first call for a matrix.
  SharedBytes find(const StoredMatrix& matrix);
  void add(const StoredMatrix& matrix, const SharedBytes& panels);
  // If panels were added, writes a new file with them and those of the old file.
  void save();

 private:
  struct Entry {
    PackedTensor tensor;
    std::shared_ptr<const void> owner;
    bool is_verified = false;
  };

  void read_file();  // throws Error
  void warn(const std::string& line) const;

  std::filesystem::path path_;
  std::uint64_t fingerprint_ = 0;
  ThreadPool* pool_;
  Warn warn_;
  std::unordered_map<std::string, Entry> entries_;
  bool is_changed_ = false;
};

}  // namespace graft::packing
