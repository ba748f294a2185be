// The cache of packed weights: a file beside the checkpoint. An existing file is mapped; panels
// that it lacks are packed and written to a new file, one matrix at a time. A damaged or outdated
// file is a warning, never an Error: the weights can be packed again.
//
// With `from_disk` the weights are larger than the free memory: packed panels stay in the file and
// not in memory, and their checksums are verified at first use (DiskPanels) instead of in find().

#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "graft/base/error.h"
#include "graft/base/parallel.h"
#include "graft/base/system/mapped_file.h"
#include "graft/formats/weight_source.h"
#include "graft/packing/disk_panels.h"
#include "graft/packing/packed_file.h"
#include "graft/packing/packed_writer.h"
#include "graft/packing/stored_matrix.h"
#include "graft/tensor/shared_bytes.h"

namespace graft::packing {

struct CachedPanels {
  SharedBytes panels = {};                      // no bytes: not cached
  std::shared_ptr<const DiskPanels> disk = {};  // with from_disk
};

class PackedCache {
 public:
  using Warn = std::function<void(const std::string& line)>;
  struct Options {
    bool from_disk = false;
    ReadAhead read_ahead = system_read_ahead();
  };

  // Maps the file if its fingerprint matches the checkpoint. `pool` computes checksums; it may be
  // null, `warn` empty.
  PackedCache(const formats::WeightSource& source, ThreadPool* pool, Warn warn)
      : PackedCache(source, pool, std::move(warn), Options{}) {}
  PackedCache(const formats::WeightSource& source, ThreadPool* pool, Warn warn, Options options);
  PackedCache(const PackedCache&) = delete;
  PackedCache& operator=(const PackedCache&) = delete;
  ~PackedCache();

  // The checkpoint's first file with ".graft-packed" appended.
  static std::filesystem::path path_for(const formats::WeightSource& source);
  // Whether a file with the fingerprint of the checkpoint exists.
  static bool exists_for(const formats::WeightSource& source);

  // The panels of a matrix with this name, type and shape. Verifies the checksum at the first call
  // for a matrix, unless it is verified at its first use.
  CachedPanels find(const StoredMatrix& matrix);
  // Writes the panels to a new file and returns those to use: the given ones, or with from_disk
  // those of the file. Without from_disk a failure is a warning, with it an Error.
  CachedPanels add(const StoredMatrix& matrix, const SharedBytes& panels);
  // If panels were added, completes the new file with those of the old one.
  void save();

  bool is_from_disk() const { return options_.from_disk; }
  // All panels returned so far; empty without from_disk.
  const std::vector<std::shared_ptr<const DiskPanels>>& disk_panels() const { return on_disk_; }

 private:
  struct Entry {
    PackedTensor tensor;
    std::shared_ptr<const void> owner;
    bool is_verified = false;
    bool is_new = false;  // in the new file
  };

  void read_file();  // throws Error
  CachedPanels panels_of(const Entry& entry);
  void stop_writing(const Error& error);
  void warn(const std::string& line) const;

  std::filesystem::path path_;
  std::uint64_t fingerprint_ = 0;
  ThreadPool* pool_;
  Warn warn_;
  Options options_;
  std::shared_ptr<const DiskPanels::Source> disk_source_;
  std::unordered_map<std::string, Entry> entries_;
  std::unique_ptr<PackedWriter> writer_;  // of the new file; null: nothing was added
  bool is_writable_ = true;
  std::vector<std::shared_ptr<const DiskPanels>> on_disk_;
};

}  // namespace graft::packing
