// Writes a GGUF v3 file front to back: metadata, the list of tensors, then their data as it is
// appended, so that memory is bounded by the caller's chunks. The final name exists only after
// finish(): an interrupted write leaves no partial file.

#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "graft/formats/gguf/metadata.h"
#include "graft/formats/tensor_spec.h"

namespace graft::formats {

class TensorFileWriter;

class GgufWriter {
 public:
  // Throws Error when the file cannot be created, a tensor cannot be stored, or a name is a
  // duplicate. The metadata is written unchanged; its general.alignment applies.
  GgufWriter(const std::filesystem::path& path,
             const GgufMetadata& metadata,
             const std::vector<TensorSpec>& tensors);
  GgufWriter(const GgufWriter&) = delete;
  GgufWriter& operator=(const GgufWriter&) = delete;
  ~GgufWriter();  // without finish(): removes the partial file

  // The next bytes of the tensor data, in the order of `tensors`; a tensor may be appended in
  // several chunks, a chunk must not cross into the next tensor.
  void append(std::span<const std::byte> data);
  // After all data: pads, flushes to disk and names the file.
  void finish();

  std::uint64_t file_bytes() const;  // of the finished file

 private:
  std::unique_ptr<TensorFileWriter> file_;
};

}  // namespace graft::formats
