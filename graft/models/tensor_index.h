// Where a weight stands in a checkpoint, asked for by its Hugging Face name whatever the format and
// however the checkpoint merges, splits or renames. Reads names only, never data.

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "graft/formats/names.h"
#include "graft/formats/weight_source.h"
#include "graft/tensor/dtype.h"

namespace graft::models {

// A stored tensor and what must happen to it to become the weight.
struct Place {
  const formats::TensorInfo* tensor = nullptr;
  formats::Layout layout = formats::Layout::Same;
  // The expert to take; with ExpertsGateHalf and ExpertsUpHalf half of that expert's rows.
  std::int64_t expert = -1;
  std::int64_t num_heads = 0;  // with RopePairs

  // Of the part of the tensor that counts, before its rows are brought in order.
  std::vector<std::int64_t> shape() const;
  std::span<const std::byte> bytes() const;
};

struct FoundWeight {
  // One, or attn_k_b and attn_v_b, which together are kv_b_proj.
  std::vector<Place> places;
  DType dtype = DType::F32;  // as it will be loaded
  std::vector<std::int64_t> shape;
};

class TensorIndex {
 public:
  // Keeps pointers into the source.
  explicit TensorIndex(const formats::WeightSource& source);

  std::optional<FoundWeight> find(std::string_view hf_name) const;
  const formats::WeightSource& source() const { return *source_; }

 private:
  std::vector<Place> places_of(std::string_view hf_name) const;
  std::optional<Place> direct(const std::string& name) const;
  std::optional<Place> in_fused_experts(std::string_view hf_name) const;

  const formats::WeightSource* source_;
  // Hugging Face name -> places, for a GGUF checkpoint.
  std::unordered_map<std::string, std::vector<Place>> gguf_places_;
};

}  // namespace graft::models
