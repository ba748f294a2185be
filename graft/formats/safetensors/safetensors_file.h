// One safetensors file, memory-mapped. The header is checked as a whole: every tensor lies inside
// the file, and together they cover its data without overlaps and holes.

#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graft/base/system/mapped_file.h"
#include "graft/formats/weight_source.h"

namespace graft::formats {

// The key of the header that is not a tensor.
inline constexpr std::string_view kMetadataKey = "__metadata__";

// A parsed safetensors file, with tensors that point into the given bytes.
struct SafetensorsPart {
  std::map<std::string, std::string> metadata;  // the header's __metadata__
  std::vector<TensorInfo> tensors;              // by position in the file
};

// Errors begin with `where`.
SafetensorsPart parse_safetensors(std::span<const std::byte> file, const std::string& where);

class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::filesystem::path& path);  // throws Error

  const std::filesystem::path& path() const { return path_; }
  const std::map<std::string, std::string>& metadata() const { return part_.metadata; }
  // By position in the file. The data need not be aligned to the size of its elements.
  const std::vector<TensorInfo>& tensors() const { return part_.tensors; }
  std::span<const std::byte> bytes() const { return file_.bytes(); }
  void release(const TensorInfo& tensor) const;

 private:
  std::filesystem::path path_;
  MappedFile file_;
  SafetensorsPart part_;
};

}  // namespace graft::formats
