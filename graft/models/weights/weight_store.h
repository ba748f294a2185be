// Lookup of a checkpoint's weights by Hugging Face name: tensors that GGUF permutes, merges or
// splits are converted to the shapes that modules expect. packing::Packer packs, CheckpointWeights
// (weights.h) reports progress.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "graft/models/weights/checkpoint.h"
#include "graft/models/weights/tensor_index.h"
#include "graft/ops/weight.h"
#include "graft/plan/blueprint.h"

namespace graft::models {

class WeightStore {
 public:
  // Weights point into the checkpoint's files: it must outlive them.
  explicit WeightStore(const Checkpoint& checkpoint) : index_(checkpoint) {}

  bool contains(std::string_view name) const { return index_.find(name).has_value(); }
  // Throws Error when the checkpoint does not have the weight.
  ops::Weight get(std::string_view name) const;
  // The names of one projection ("gate_proj", "up_proj" or "down_proj") of all routed experts of
  // the module `experts`, in order.
  std::vector<std::string> expert_names(std::string_view experts,
                                        std::string_view projection) const;

  // Bytes of a weight in the files; 0 when the checkpoint does not have it.
  std::uint64_t stored_bytes(std::string_view name) const;
  // Drops the resident pages of the stored tensors (madvise). Returns their bytes.
  std::uint64_t release(std::string_view name) const;

  // Throws one Error that lists every weight of the blueprint that is missing or has the wrong
  // shape, and tensors that the model does not use and that are not known to be optional.
  void check(const plan::Blueprint& blueprint) const;

 private:
  std::string where() const;  // the checkpoint's first file

  TensorIndex index_;
};

}  // namespace graft::models
