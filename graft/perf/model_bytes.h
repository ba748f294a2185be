// What the parts of a model take on a GPU, for automatic placement.

#pragma once

#include <cstdint>
#include <vector>

#include "graft/perf/estimate.h"

namespace graft::perf {

struct LayerBytes {
  std::int64_t dense = 0;      // all but the routed experts
  std::int64_t per_token = 0;  // of the KV cache
  std::int64_t experts = 0;
  std::int64_t packed_experts = 0;  // the same in host memory, and copies of them
};

struct ModelBytes {
  std::vector<LayerBytes> layers;
  std::int64_t embedding = 0;
  std::int64_t head = 0;            // final norm and lm_head, also when it is the embedding
  std::int64_t workspace = 0;       // of the device that computes the widest module
  std::int64_t stream_buffers = 0;  // of a GPU that streams experts
  std::int64_t num_experts = 0;
  std::int64_t logits = 0;
  std::int64_t vision = 0;     // vision tower and projector
  bool has_gpu_vision = true;  // whether GPUs have operators for them
};

// For the passes of `load`.
ModelBytes count_bytes(const plan::Blueprint& blueprint, const Workload& load);

}  // namespace graft::perf
