// Writes a safetensors file front to back: the header, then tensor data as it comes. The same
// metadata and tensors give the same bytes. Nothing stands under the final name until finish().

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
  // Throws Error when the file cannot be created, a tensor cannot be stored, or a name comes twice.
  // Data follows the order of `tensors` without padding (the format allows none): put wide types
  // first where readers want aligned data.
  SafetensorsWriter(const std::filesystem::path& path,
                    const std::map<std::string, std::string>& metadata,
                    const std::vector<TensorSpec>& tensors);
  SafetensorsWriter(const SafetensorsWriter&) = delete;
  SafetensorsWriter& operator=(const SafetensorsWriter&) = delete;
  ~SafetensorsWriter();  // without finish(): removes what was written

  // The next bytes of the tensor data, in the order of `tensors`; a tensor may come in pieces, and
  // a piece must not cross into the next tensor.
  void append(std::span<const std::byte> data);
  // All data is there: flushes to disk and gives the file its name.
  void finish();

  std::uint64_t file_bytes() const;  // of the finished file

 private:
  std::unique_ptr<TensorFileWriter> file_;
};

}  // namespace graft::formats
