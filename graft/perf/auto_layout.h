// Which layers and experts of a model each GPU of a machine can hold. The same model and machine
// always give the same layouts.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "graft/perf/estimate.h"

namespace graft::perf {

// The consecutive layers of one GPU. Bounds are inclusive; first > last means none.
struct GpuLayers {
  std::int64_t first = 0;
  std::int64_t last = -1;
  std::int64_t first_experts = 0;  // first layer of the range with routed experts
  std::int64_t last_experts = -1;  // last layer whose experts are on the GPU only
  // The others have their experts in host memory.
  bool streams = false;     // whether the GPU streams these in prefill
  std::int64_t copies = 0;  // experts of each of these layers that it also has

  bool empty() const { return last < first; }
  // The first layer with experts in host memory; after `last`: none.
  std::int64_t first_host_experts() const;
};

struct AutoLayout {
  std::vector<GpuLayers> gpus;  // one per GPU of the machine
  bool head_on_gpu = false;     // final norm and lm_head, on the last GPU with layers
  bool is_whole = false;        // everything on GPUs, the embedding too, but perhaps vision
  bool has_vision = false;
  std::optional<std::size_t> vision_gpu = {};  // of vision tower and projector; null: on the CPU
  std::int64_t num_experts = 0;
  std::int64_t num_layers = 0;
  std::int64_t context = 0;         // tokens the KV cache was counted for
  std::int64_t prefill_tokens = 0;  // that the workspace was counted for
};

// One, where the GPUs hold everything, or all layers and stream the experts in host memory. Else
// those to compare: as many layers as fit, fewer layers with memory to stream their experts, all on
// the CPU.
// load.context 0: default_context(), or half of it and so on down to 4096 when all layers fit into
// the GPUs only then. load.prefill_tokens 0: kStreamedTokens where experts are streamed (see
// prefers_long_passes()), else kPlacedTokens.
std::vector<AutoLayout> possible_layouts(const plan::Blueprint& blueprint,
                                         const MachineFigures& machine,
                                         const Workload& load);

}  // namespace graft::perf
