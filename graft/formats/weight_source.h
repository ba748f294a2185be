// A checkpoint on disk in any format: its configuration as the files store it, its tensors, its
// tokenizer. Opening reads headers only; tensor data is memory-mapped and paged in on access. What
// the configuration means is graft/models' business (Checkpoint).

#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graft/formats/tokenizer_data.h"
#include "graft/tensor/dtype.h"

namespace graft::formats {

class GgufMetadata;
struct HfConfigFiles;

struct TensorInfo;

// The rows of a tensor that the files store in another form: packed integers with separate scales
// (graft/formats/integers).
class RowSource {
 public:
  RowSource() = default;
  RowSource(const RowSource&) = delete;
  RowSource& operator=(const RowSource&) = delete;
  virtual ~RowSource() = default;

  // Writes rows [begin, begin + count) in the tensor's type. Thread-safe. Throws Error for invalid
  // values in the files.
  virtual void read(std::int64_t begin, std::int64_t count, std::byte* out) const = 0;
  // Column i of these rows is column order[i] of the weight; null: they are in order. Throws Error.
  virtual std::shared_ptr<const std::vector<std::int32_t>> column_order() const = 0;
  // The stored tensors.
  virtual std::span<const TensorInfo> parts() const = 0;
};

struct TensorInfo {
  std::string name;  // as the file spells it
  DType dtype = DType::F32;
  std::vector<std::int64_t> shape;  // outermost first, [] for a scalar
  std::span<const std::byte> data;  // inside the mapped file; with `row_source`, the codes
  std::shared_ptr<const RowSource> row_source = {};  // null: `data` has the rows

  std::int64_t num_elems() const;
  // Elements of one row (the innermost dimension) and number of rows; 1 for a scalar.
  std::int64_t row_elems() const;
  std::int64_t num_rows() const;
};

class WeightSource {
 public:
  virtual ~WeightSource() = default;

  // "GGUF v3", "safetensors", "config.json"
  virtual std::string_view format() const = 0;
  // The file or folder that was opened.
  virtual const std::filesystem::path& path() const = 0;
  // The files that hold the tensors.
  virtual std::span<const std::filesystem::path> files() const = 0;

  // The raw configuration: one of the two, or neither for a safetensors file without config.json.
  virtual const HfConfigFiles* hf_config() const { return nullptr; }
  virtual const GgufMetadata* gguf_metadata() const { return nullptr; }
  // Of the vision tower of a GGUF model (gguf/paired_source.h).
  virtual const GgufMetadata* mmproj_metadata() const { return nullptr; }

  // In file order. Names are unique.
  virtual std::span<const TensorInfo> tensors() const = 0;
  // Null when no tensor has that name.
  virtual const TensorInfo* find(std::string_view name) const = 0;
  // The bytes of this tensor will not be read again soon.
  virtual void release(const TensorInfo& tensor) const = 0;

  // Empty (no tokens) when the checkpoint has no tokenizer. `tokens` completes tokenizer.json; a
  // GGUF file has all of it. Adds one line to `warnings` for each thing that is not supported.
  virtual TokenizerData read_tokenizer(const ModelTokens& tokens,
                                       std::vector<std::string>& warnings) const = 0;
};

// Opens a GGUF file (any part of a split one), a safetensors file, a Hugging Face folder, or a bare
// config.json (no tensors). Throws Error when the path is none of these or is malformed.
std::unique_ptr<WeightSource> open_weights(const std::filesystem::path& path);

}  // namespace graft::formats
