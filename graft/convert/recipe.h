// How one GGUF tensor is made from the tensors of a checkpoint: its sources, its transform, and a
// reader that yields any of its rows as floats. Rows are independent, so a tensor larger than
// memory is converted in chunks.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graft/formats/tensor_transform.h"
#include "graft/formats/weight_source.h"
#include "graft/quant/fp8_scale.h"

namespace graft::convert {

struct RecipeSource {
  const formats::TensorInfo* weight = nullptr;
  const formats::TensorInfo* scale = nullptr;  // of FP8 weights; null: none
};

struct Recipe {
  std::string name;                 // as GGUF spells it
  std::vector<std::int64_t> shape;  // outermost first
  DType dtype = DType::F32;         // to be written
  formats::TensorTransform transform = formats::TensorTransform::Same;
  std::int64_t num_heads = 0;         // TensorTransform::RopePairs
  formats::KvBShape kv_b = {};        // TensorTransform::KvBKey, KvBValue
  std::vector<RecipeSource> sources;  // experts in order of their index
  std::vector<float> values;          // instead of sources: computed here (rope_freqs)

  std::int64_t row_elems() const { return shape.empty() ? 1 : shape.back(); }
  std::int64_t num_rows() const;
  // The file's bytes can be written as they are.
  bool is_copy() const;
};

class RowReader {
 public:
  // `recipe` must outlive the reader. `block_size` is that of FP8 block scales.
  // Throws Error when a scale does not fit its weight.
  RowReader(const Recipe& recipe, const std::vector<std::int64_t>& block_size);

  // Rows [begin, begin + count) as floats. Safe to call from several threads at once.
  void read(std::int64_t begin, std::int64_t count, float* out) const;

 private:
  // Rows of one source tensor, decoded and scaled.
  void read_source(std::size_t source, std::int64_t begin, std::int64_t count, float* out) const;
  void read_bias(float* out) const;
  void read_key_rows(std::int64_t begin, std::int64_t count, float* out) const;
  // Which row of which source becomes output row `row`.
  struct Place {
    std::size_t source;
    std::int64_t row;
  };
  Place place_of(std::int64_t row) const;

  const Recipe& recipe_;
  struct Scales {
    quant::ScaleLayout layout;
    std::vector<float> values;
  };
  std::vector<Scales> scales_;  // by source; empty where the weight has none
};

}  // namespace graft::convert
