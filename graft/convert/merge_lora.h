// Merges a LoRA adapter into the tensors of a conversion: W + scale * B A.

#pragma once

#include <cstdint>
#include <vector>

#include "graft/convert/job.h"
#include "graft/models/lora/adapter.h"

namespace graft::convert {

// The addition to a tensor of the source checkpoint, in its order of rows.
struct LowRank {
  std::int64_t rank = 0;
  std::int64_t cols = 0;
  float scale = 1.0F;
  std::vector<float> a;  // [rank, cols]
  std::vector<float> b;  // [rows, rank]

  // rows[count, cols] += those of the product from `begin` on.
  void add(std::int64_t begin, std::int64_t count, float* rows) const;
};

// Adds the adapter to the tensors that `job` reads. A PEFT adapter is merged into a Hugging Face
// folder and a GGUF adapter into a GGUF file, whose tensors have its names. Throws Error when the
// adapter does not fit the model, or a type to write has no encoder.
void merge_lora(Job& job, const models::AdapterSource& source);

}  // namespace graft::convert
