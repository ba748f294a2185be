// The weights of a Hugging Face folder: model.safetensors, or the shards that
// model.safetensors.index.json names. Index and shards must agree on every tensor.

#pragma once

#include <filesystem>
#include <vector>

#include "graft/formats/safetensors/safetensors_file.h"
#include "graft/formats/weight_source.h"

namespace graft::formats {

class SafetensorsFolder {
 public:
  // Throws Error when the folder has neither file, a shard is missing or outside the folder, or
  // index and shards disagree. As in transformers, model.safetensors wins over an index.
  explicit SafetensorsFolder(const std::filesystem::path& folder);

  // Whether the folder has one of the two files.
  static bool is_one(const std::filesystem::path& folder);

  // Shards in the order of their names, tensors by position in their shard. Names are unique.
  const std::vector<TensorInfo>& tensors() const { return tensors_; }
  const std::vector<std::filesystem::path>& paths() const { return paths_; }  // of the shards
  void release(const TensorInfo& tensor) const;

 private:
  std::vector<TensorInfo> tensors_;
  std::vector<std::filesystem::path> paths_;
  std::vector<SafetensorsFile> files_;
};

}  // namespace graft::formats
