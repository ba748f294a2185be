#include "graft/engine/config.h"

#include <algorithm>

#include "graft/base/out_of_memory.h"
#include "graft/base/text/units.h"

namespace graft::engine {
namespace {

class Problems {
 public:
  void require(bool holds, auto&&... text) {
    if (!holds) text_ += str(text_.empty() ? "" : "; ", text...);
  }
  void finish() const {
    if (!text_.empty()) fail(text_);
  }

 private:
  std::string text_;
};

// Context length of models that state none; small enough for any machine.
constexpr std::int64_t kUnknownContext = 4096;

std::int64_t blocks_from_memory(const EngineConfig& config, const EngineLimits& limits) {
  const std::int64_t block_size = config.kvcache_block_size;
  const std::int64_t per_sequence = (config.max_model_len + block_size - 1) / block_size;
  const double bytes = static_cast<double>(limits.available_bytes) * config.gpu_memory_utilization;
  const double block_bytes =
      static_cast<double>(limits.bytes_per_token) * static_cast<double>(block_size);
  const auto num_fitting = static_cast<std::int64_t>(bytes / std::max(block_bytes, 1.0));
  return std::min(num_fitting, per_sequence * config.max_num_seqs);
}

}  // namespace

EngineConfig resolve(EngineConfig config, const EngineLimits& limits) {
  Problems problems;
  if (config.max_num_batched_tokens == 0)
    config.max_num_batched_tokens = std::max(limits.batched_tokens, config.max_num_seqs);
  problems.require(config.max_num_batched_tokens >= 0, "max_num_batched_tokens is ",
                   config.max_num_batched_tokens, ", expected 0 (automatic) or more");
  problems.require(config.max_num_seqs >= 1, "max_num_seqs is ", config.max_num_seqs,
                   ", expected at least 1");
  problems.require(config.max_num_batched_tokens >= config.max_num_seqs, "max_num_batched_tokens (",
                   config.max_num_batched_tokens, ") is less than max_num_seqs (",
                   config.max_num_seqs, "): every running sequence needs one token per step");
  problems.require(config.max_model_len >= 0, "max_model_len is ", config.max_model_len);
  problems.require(limits.model_context == 0 || config.max_model_len <= limits.model_context,
                   "max_model_len (", config.max_model_len, ") exceeds the model's context of ",
                   limits.model_context, " tokens");
  problems.require(config.kvcache_block_size >= 0 && config.kvcache_block_size <= 65536,
                   "kvcache_block_size is ", config.kvcache_block_size, ", expected 1 to 65536");
  problems.require(config.num_kvcache_blocks == -1 || config.num_kvcache_blocks >= 1,
                   "num_kvcache_blocks is ", config.num_kvcache_blocks,
                   ", expected -1 (automatic) or at least 1");
  problems.require(config.gpu_memory_utilization > 0 && config.gpu_memory_utilization <= 1,
                   "gpu_memory_utilization is ", config.gpu_memory_utilization,
                   ", expected above 0 and up to 1");
  problems.require(config.chunk_prefill_size >= 0, "chunk_prefill_size is ",
                   config.chunk_prefill_size, ", expected 0 (max_num_batched_tokens) or more");
  problems.require(config.tensor_parallel_size == 1, "tensor_parallel_size is ",
                   config.tensor_parallel_size,
                   ", expected 1: tensor parallelism is not supported");
  const bool has_tiers = config.kv_host_bytes > 0 || config.kv_disk_bytes > 0;
  problems.require(!has_tiers || config.enable_prefix_caching,
                   "kv_host_bytes and kv_disk_bytes need enable_prefix_caching");
  problems.require(config.kv_disk_bytes == 0 || !config.kv_dir.empty(), "kv_disk_bytes is ",
                   config.kv_disk_bytes, ", but kv_dir is empty");
  problems.finish();

  if (config.max_model_len == 0)
    config.max_model_len = limits.model_context > 0 ? limits.model_context : kUnknownContext;
  if (config.kvcache_block_size == 0) config.kvcache_block_size = limits.block_tokens;
  if (config.chunk_prefill_size == 0) config.chunk_prefill_size = config.max_num_batched_tokens;
  if (config.num_kvcache_blocks == -1) {
    config.num_kvcache_blocks = blocks_from_memory(config, limits);
    if (config.num_kvcache_blocks < 1) {
      fail_out_of_memory(
          "out of memory for the KV cache: ", bytes_text(limits.available_bytes),
          " available, one block of ", config.kvcache_block_size, " tokens needs ",
          bytes_text(limits.bytes_per_token * static_cast<std::size_t>(config.kvcache_block_size)));
    }
  }
  return config;
}

}  // namespace graft::engine
