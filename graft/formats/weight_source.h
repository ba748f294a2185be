// A checkpoint on disk, whatever its format: what the model is, its tensors, its tokenizer.
// Opening reads headers only; tensor data is memory-mapped and read when somebody looks at it.

#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graft/formats/model_config.h"
#include "graft/formats/tokenizer_data.h"
#include "graft/tensor/dtype.h"

namespace graft::formats {

class GgufMetadata;

struct TensorInfo {
  std::string name;  // as the file spells it
  DType dtype = DType::F32;
  std::vector<std::int64_t> shape;  // outermost first, [] for a scalar
  std::span<const std::byte> data;  // inside the mapped file

  std::int64_t num_elems() const;
  // Elements of one row (the innermost dimension) and how many rows there are; 1 for a scalar.
  std::int64_t row_elems() const;
  std::int64_t num_rows() const;
};

class WeightSource {
 public:
  virtual ~WeightSource() = default;

  // "GGUF v3", "safetensors", "config.json"
  virtual std::string_view format() const = 0;
  virtual std::span<const std::filesystem::path> files() const = 0;
  virtual const ModelConfig& config() const = 0;
  // Empty (no tokens) when the checkpoint brings none.
  virtual const TokenizerData& tokenizer() const = 0;
  // Sorted as the files store them. Names are unique.
  virtual std::span<const TensorInfo> tensors() const = 0;
  // Null when there is no tensor of that name.
  virtual const TensorInfo* find(std::string_view name) const = 0;
  // What the checkpoint says that was understood only in part; for people, one line each.
  virtual std::span<const std::string> warnings() const { return {}; }
  // The metadata of a GGUF checkpoint, for rewriting it; null for other formats.
  virtual const GgufMetadata* gguf_metadata() const { return nullptr; }
  // The bytes of this tensor will not be needed again soon.
  virtual void release(const TensorInfo& tensor) const = 0;
};

// Opens a GGUF file (any part of a split one), a safetensors file, a Hugging Face folder, or a bare
// config.json (no tensors). Throws Error when the path is none of these or is malformed.
std::unique_ptr<WeightSource> open_weights(const std::filesystem::path& path);

}  // namespace graft::formats
