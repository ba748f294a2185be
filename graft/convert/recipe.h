// How one GGUF tensor is made from the tensors of a checkpoint: its sources, its transform, and a
// reader that yields any of its rows as floats. Rows are independent, so a tensor larger than
// memory is converted in chunks.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "graft/formats/delta_heads.h"
#include "graft/formats/tensor_transform.h"
#include "graft/formats/weight_source.h"
#include "graft/quant/fp8_scale.h"

namespace graft::convert {

struct LowRank;

struct RecipeSource {
  const formats::TensorInfo* weight = nullptr;
  const formats::TensorInfo* scale = nullptr;  // FP8 and MXFP4 weights only
  std::shared_ptr<const LowRank> lora = {};    // added to the weight (merge_lora.h); null: none
};

struct Recipe {
  std::string name;                 // as GGUF spells it
  std::vector<std::int64_t> shape;  // outermost first
  DType dtype = DType::F32;         // to be written
  formats::TensorTransform transform = formats::TensorTransform::Same;
  std::int64_t num_heads = 0;         // TensorTransform::RopePairs
  formats::KvBShape kv_b = {};        // TensorTransform::KvBKey, KvBValue
  formats::DeltaHeads heads = {};     // the transforms of gated delta-rule layers
  std::vector<RecipeSource> sources;  // experts in order of their index
  std::vector<float> values;          // instead of sources: computed here (rope_freqs)

  std::int64_t row_elems() const { return shape.empty() ? 1 : shape.back(); }
  std::int64_t num_rows() const;
  // Whether the source's bytes can be copied unchanged.
  bool is_copy() const;
  // The type of the source's values: of MXFP4 codes and scales MXFP4. Experts of several types have
  // that of the first.
  DType source_dtype() const;
  // Whether rows are gathered in their type and written without decoding (RowReader::gather()).
  bool is_gathered() const;
};

// Whether all sources are packed integers of one type whose rows can be written as they are.
bool keeps_integers(const Recipe& recipe);

// Whether values of the type are ids, written as I32.
constexpr bool is_id_type(DType dtype) {
  return dtype == DType::I64 || dtype == DType::I32;
}

class RowReader {
 public:
  // `recipe` must outlive the reader. `block_size` is {rows, columns} of FP8 block scales, or
  // empty. Throws Error when the shape of a scale does not match its weight.
  RowReader(const Recipe& recipe, const std::vector<std::int64_t>& block_size);

  // Writes rows [begin, begin + count) to `out` as f32. Thread-safe.
  void read(std::int64_t begin, std::int64_t count, float* out) const;
  // Writes rows of a source of I64 as I32. Throws Error for a value out of range. Thread-safe.
  void read_ids(std::int64_t begin, std::int64_t count, std::byte* out) const;
  // Writes the rows in the type of the source, for recipes that are is_gathered(). Thread-safe.
  void gather(std::int64_t begin, std::int64_t count, std::byte* out) const;

 private:
  void gather_experts(std::int64_t begin, std::int64_t count, std::byte* out) const;
  // Calls visit(source, first row in it, count, first row here) for runs of rows that are
  // contiguous in a source.
  template <class Visit>
  void for_each_run(std::int64_t begin, std::int64_t count, const Visit& visit) const;
  // Rows of one source tensor, dequantized and scaled.
  void read_source(std::size_t source, std::int64_t begin, std::int64_t count, float* out) const;
  void read_bias(float* out) const;
  void read_head_values(float* out) const;
  void read_tiled_columns(std::int64_t begin, std::int64_t count, float* out) const;
  void read_key_rows(std::int64_t begin, std::int64_t count, float* out) const;
  struct SourceRow {
    std::size_t source;
    std::int64_t row;
  };
  // The source tensor and row of output row `row`.
  SourceRow source_row(std::int64_t row) const;

  const Recipe& recipe_;
  struct Scales {
    quant::ScaleLayout layout;
    std::vector<float> values;
  };
  std::vector<Scales> scales_;  // by source; empty values for a weight without scales
};

}  // namespace graft::convert
