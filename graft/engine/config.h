// Engine configuration, with vLLM's option names.

#pragma once

#include <cstdint>
#include <string>

namespace graft::engine {

struct EngineConfig {
  std::int64_t max_num_batched_tokens = 2048;  // token budget of one step, over all sequences
  std::int64_t max_num_seqs = 128;             // running sequences
  std::int64_t max_model_len = 0;        // prompt and output tokens; 0: the model's context length
  std::int64_t kvcache_block_size = 0;   // tokens; 0: the kv_cache rule's value (default 16)
  std::int64_t num_kvcache_blocks = -1;  // -1: as many as fit into memory
  double gpu_memory_utilization = 0.9;   // fraction of the free memory that the KV cache may use
  std::int64_t chunk_prefill_size = 0;   // max prompt tokens of a sequence per step; 0: the budget
  std::int64_t tensor_parallel_size = 1;
  bool enforce_eager = false;  // disables CUDA graphs; no effect on the CPU
  bool enable_prefix_caching = true;
  // Idle seconds after which the KV cache's memory, including the prefix cache, is released to the
  // system. Negative: never.
  double idle_release_seconds = 300;
};

// Facts about the model and the machine that resolve() needs.
struct EngineLimits {
  std::int64_t model_context = 0;     // context length of the model in tokens; 0: unknown
  std::int64_t block_tokens = 16;     // block size of the current cache
  std::size_t bytes_per_token = 0;    // KV cache bytes over all layers
  std::uint64_t available_bytes = 0;  // memory that the KV cache may use
};

// Replaces 0 and -1 by actual values. Throws one Error that lists everything invalid.
EngineConfig resolve(EngineConfig config, const EngineLimits& limits);

}  // namespace graft::engine
