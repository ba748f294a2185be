// Packed weights beside the checkpoint: mapped where an earlier start has left them, kept in a new
// file otherwise. What is wrong with the file is a warning, never an Error: the weights can be
// packed again.

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
#include "graft/ops/weight.h"
#include "graft/packing/packed_file.h"

namespace graft::packing {

class PackedCache {
 public:
  using Warn = std::function<void(const std::string& line)>;

  // Takes the file when it belongs to the checkpoint as it is now. `pool` may be null, `warn`
  // empty.
  PackedCache(const formats::WeightSource& source, ThreadPool* pool, Warn warn);

  // The checkpoint's first file with ".graft-packed" behind its name.
  static std::filesystem::path path_for(const formats::WeightSource& source);

  // As WeightProvider has them. Bytes of the file are checked when they are asked for first.
  ops::SharedBytes find(const ops::Weight& weight);
  void keep(const ops::Weight& weight, const ops::SharedBytes& panels);
  // Writes the file anew, with what it held before, if anything was added.
  void save();

 private:
  struct Entry {
    PackedTensor tensor;
    std::shared_ptr<const void> owner;
    bool is_checked = false;
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
