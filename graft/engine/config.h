// The engine's limits, under the names vLLM's users know.

#pragma once

#include <cstdint>
#include <string>

namespace graft::engine {

struct EngineConfig {
  std::int64_t max_num_batched_tokens = 2048;  // of one step, over all sequences
  std::int64_t max_num_seqs = 128;             // that run at once
  std::int64_t max_model_len = 0;  // tokens of prompt and answer; 0: what the model was made for
  std::int64_t kvcache_block_size = 0;   // tokens; 0: as the cache's rule says (16)
  std::int64_t num_kvcache_blocks = -1;  // -1: from memory
  double gpu_memory_utilization = 0.9;   // share of the memory the cache may grow into
  std::int64_t chunk_prefill_size = 0;   // most tokens of one prompt per step; 0: the step's budget
  std::int64_t tensor_parallel_size = 1;
  bool enforce_eager = false;  // no CUDA graphs; nothing to choose on the CPU
  bool enable_prefix_caching = true;
  // The cache's memory goes back to the system when nothing ran for so long; the remembered
  // prefixes go with it. Negative: never.
  double idle_release_seconds = 300;
};

// What the engine learned of the model and the machine.
struct EngineLimits {
  std::int64_t model_context = 0;     // what the model was made for; 0: unknown
  std::int64_t block_tokens = 16;     // of the cache as it stands
  std::size_t bytes_per_token = 0;    // of the cache, all layers
  std::uint64_t available_bytes = 0;  // memory that the cache could take
};

// Fills what is 0 or -1. Throws Error with everything that cannot work, and why.
EngineConfig resolve(EngineConfig config, const EngineLimits& limits);

}  // namespace graft::engine
