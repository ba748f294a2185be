// A GGUF checkpoint (version 2 or 3), in one file or split into parts, memory-mapped.
// Every count, offset, length and type is checked: all tensors lie inside the files.

#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "graft/base/system/mapped_file.h"
#include "graft/formats/gguf/metadata.h"
#include "graft/formats/weight_source.h"

namespace graft::formats {

class GgufFile {
 public:
  // Any part of a split checkpoint (name-00002-of-00005.gguf) opens all of it. Throws Error.
  explicit GgufFile(const std::filesystem::path& path);

  std::uint32_t version() const { return version_; }
  const GgufMetadata& metadata() const { return metadata_; }  // of the first part
  const std::vector<TensorInfo>& tensors() const { return tensors_; }
  const std::vector<std::filesystem::path>& paths() const { return paths_; }
  void release(const TensorInfo& tensor) const;

 private:
  std::uint32_t version_ = 0;
  GgufMetadata metadata_;
  std::vector<TensorInfo> tensors_;
  std::vector<std::filesystem::path> paths_;
  std::vector<MappedFile> files_;
};

}  // namespace graft::formats
