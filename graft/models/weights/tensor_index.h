// Finds the stored tensors of a weight by its Hugging Face name, in any format, whether the
// checkpoint merges, splits or renames tensors. Reads names only, never data.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "graft/formats/delta_heads.h"
#include "graft/formats/tensor_transform.h"
#include "graft/models/weights/checkpoint.h"
#include "graft/models/weights/expert_layout.h"
#include "graft/tensor/dtype.h"

namespace graft::models {

// A stored tensor and the transform between it and the weight.
struct StoredTensor {
  const formats::TensorInfo* tensor = nullptr;
  formats::TensorTransform transform = formats::TensorTransform::Same;
  std::int64_t expert = -1;    // index in a merged tensor [experts, …]; -1: not merged
  std::int64_t num_heads = 0;  // for RopePairs
  // The rows of q, k or v in a fused tensor; num_rows 0: not fused so. Of tensors that are split by
  // key head the number of rows only: they are gathered.
  std::int64_t first_row = 0;
  std::int64_t num_rows = 0;
  const formats::TensorInfo* scales = nullptr;  // for MXFP4

  StoredExperts experts() const {
    return {.tensor = tensor, .scales = scales, .transform = transform};
  }
  // The part of the tensor that is the weight (one expert, one half, or q, k or v); rows in stored
  // order.
  formats::TensorSlice slice() const {
    return num_rows > 0 ? formats::slice_of_rows(*tensor, first_row, num_rows)
                        : formats::slice_of(*tensor, transform, expert);
  }
};

struct FoundWeight {
  // One tensor; for kv_b_proj of GGUF files two: attn_k_b and attn_v_b.
  std::vector<StoredTensor> stored;
  DType dtype = DType::F32;  // after loading
  std::vector<std::int64_t> shape;
};

// The shape of kv_b_proj in a model with MLA.
formats::KvBShape kv_b_shape(const ModelConfig& config);

// The heads of the model's gated delta-rule layers.
formats::DeltaHeads delta_heads(const ModelConfig& config);

class TensorIndex {
 public:
  // Keeps pointers into the checkpoint.
  explicit TensorIndex(const Checkpoint& checkpoint);

  std::optional<FoundWeight> find(std::string_view hf_name) const;
  const Checkpoint& checkpoint() const { return *checkpoint_; }

 private:
  std::vector<StoredTensor> find_stored(std::string_view hf_name) const;
  const formats::TensorInfo* find_vision(std::string_view hf_name) const;
  std::optional<StoredTensor> find_direct(const std::string& name) const;
  std::optional<StoredTensor> find_fused(std::string_view hf_name) const;

  const Checkpoint* checkpoint_;
  // Hugging Face name -> stored tensors, for a GGUF checkpoint.
  std::unordered_map<std::string, std::vector<StoredTensor>> gguf_tensors_;
  // By the names of transformers' modules, for families that store tensors under others.
  std::unordered_map<std::string, const formats::TensorInfo*> renamed_;
};

}  // namespace graft::models
