// The memory that a model takes on each device, from its plan alone: weights in the form in which
// they are loaded, KV cache, workspace. Used by `graft plan` and before a model is loaded.

#pragma once

#include <cstdint>
#include <map>

#include "graft/plan/plan.h"
#include "graft/tensor/device.h"

namespace graft::perf {

struct Workload {
  std::int64_t context = 4096;        // cached tokens per sequence
  std::int64_t parallel = 1;          // sequences decoded in one batch
  std::int64_t prefill_tokens = 512;  // tokens of one prefill chunk
  std::uint64_t host_tier = 0;        // bytes of host memory for blocks of earlier prompts
  double hit_rate = -1;  // of experts with copies in GPU memory; -1: all are used equally often
};

// In bytes.
struct MemoryUse {
  std::uint64_t weights = 0;
  std::uint64_t mapped = 0;  // of `weights`: in mapped files, whose pages the system can drop
  std::uint64_t kv_cache = 0;
  std::uint64_t states = 0;  // recurrent states
  std::uint64_t workspace = 0;
  std::uint64_t capacity = 0;  // 0: unknown

  std::uint64_t total() const { return weights + kv_cache + states + workspace; }
  std::uint64_t allocated() const { return total() - mapped; }
  bool fits() const { return capacity == 0 || total() <= capacity; }
  // Whether it runs, be it with weights that are read from disk in every pass.
  bool can_run() const { return capacity == 0 || allocated() <= capacity; }
};

// How weights on the CPU are held (LlmConfig).
struct HostWeights {
  bool repack = true;      // false: all stay in the mapped checkpoint
  bool from_disk = false;  // packed weights stay in the mapped cache file
};

// Without capacities.
std::map<Device, MemoryUse> memory_use(const plan::Plan& plan,
                                       const Workload& load,
                                       const HostWeights& host = {});

// Tokens of a sequence of load.context tokens that are in the KV cache at a time.
std::int64_t cached_tokens_of(const plan::Blueprint& blueprint, const Workload& load);

// Of weights that are packed for the CPU kernels where they can be.
std::uint64_t packed_weight_bytes(const plan::ModuleSpec& module);

// Bytes of f32 activations per token that an operator keeps alive at once.
double workspace_row_bytes(const plan::ModuleSpec& module);

// Scratch memory of latent and of compressed attention on a GPU beside those rows, latent attention
// with or without absorb_for_prefill: true; 0 for other modules.
double attention_scratch_bytes(const plan::ModuleSpec& module, const Workload& load, bool absorbs);

// Activations of a vision tower or a projector for one tile of a picture; 0 for other modules. They
// take the memory of passes, between passes.
double vision_scratch_bytes(const plan::ModuleSpec& module);

}  // namespace graft::perf
