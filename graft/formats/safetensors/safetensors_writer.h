// Writes a safetensors file front to back: the header, then tensor data as it is appended. The same
// metadata and tensors give the same bytes. The final name exists only after finish().

#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "graft/formats/tensor_spec.h"

namespace graft::formats {

class TensorFileWriter;

class SafetensorsWriter {
 public:
  // Throws Error when the file cannot be created, a tensor cannot be stored, or a name is a
  // duplicate. Data follows the order of `tensors` without padding (the format allows none): put
  // wide types first for readers that need aligned data.
  SafetensorsWriter(const std::filesystem::path& path,
                    const std::map<std::string, std::string>& metadata,
                    const std::vector<TensorSpec>& tensors);
  SafetensorsWriter(const SafetensorsWriter&) = delete;
  SafetensorsWriter& operator=(const SafetensorsWriter&) = delete;
  ~SafetensorsWriter();  // without finish(): removes the partial file

  // The next bytes of the tensor data, in the order of `tensors`; a tensor may be appended in
  // several chunks, a chunk must not cross into the next tensor.
  void append(std::span<const std::byte> data);
  // After all data: flushes to disk and names the file.
  void finish();

  std::uint64_t file_bytes() const;  // of the finished file

 private:
  std::unique_ptr<TensorFileWriter> file_;
};

}  // namespace graft::formats
