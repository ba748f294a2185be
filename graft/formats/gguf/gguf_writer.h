// Writes a GGUF v3 file front to back: metadata, the list of tensors, then their data as it comes,
// so that memory is bounded by what the caller holds. Nothing stands under the final name until
// finish(): an interrupted write leaves no half file behind.

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
  // Throws Error when the file cannot be created, a tensor cannot be stored, or a name comes twice.
  // The metadata is written as it is, type by type; its general.alignment is honoured.
  GgufWriter(const std::filesystem::path& path,
             const GgufMetadata& metadata,
             const std::vector<TensorSpec>& tensors);
  GgufWriter(const GgufWriter&) = delete;
  GgufWriter& operator=(const GgufWriter&) = delete;
  ~GgufWriter();  // without finish(): removes what was written

  // The next bytes of the tensor data, in the order of `tensors`; a tensor may come in pieces, and
  // a piece must not cross into the next tensor.
  void append(std::span<const std::byte> data);
  // All data is there: pads, flushes to disk and gives the file its name.
  void finish();

  std::uint64_t file_bytes() const;  // of the finished file

 private:
  std::unique_ptr<TensorFileWriter> file_;
};

}  // namespace graft::formats
