// The paged KV cache of a layer in GPU memory, on the device of its attention.

#pragma once

#include <string>

#include "graft/kernels/cuda/cache/kv_cache.h"
#include "graft/ops/operator.h"
#include "graft/ops/registry.h"
#include "graft/tensor/buffer.h"

namespace graft::ops::cuda {

class KvCacheCuda final : public KvCache {
 public:
  explicit KvCacheCuda(const BuildContext& context);

  void allocate(std::int64_t num_blocks, std::int64_t block_tokens) override;
  void unload() override;
  std::int64_t num_blocks() const override { return num_blocks_; }
  std::int64_t block_tokens() const override { return block_tokens_; }
  std::size_t bytes_per_block() const override;
  std::byte* blocks() const override { return memory_.data(); }
  void copy_block(std::int64_t from, std::int64_t to) override;
  void save_block(std::int64_t block, std::span<std::byte> out) const override;
  void load_block(std::int64_t block, std::span<const std::byte> in) override;
  // Does nothing: GPU memory is allocated and freed as a whole.
  void release_blocks(std::int64_t /*first*/, std::int64_t /*count*/) override {}
  std::string form() const override;
  void write(TensorView key, TensorView value, Pass& pass) override;
  // For tests and snapshots; attention reads the rows in place.
  void read_keys(const SequenceSlice& sequence, const Part& part, float* out) const override;
  void read_values(const SequenceSlice& sequence, const Part& part, float* out) const override;

  kernels::cuda::CacheRows rows() const;

 private:
  std::byte* block_data(std::int64_t block) const;
  void read(const SequenceSlice& sequence, const Part& part, std::int64_t first, float* out) const;

  std::string module_;
  KvCacheParams params_;
  Device device_;
  DType dtype_;
  std::int64_t block_tokens_;
  std::int64_t num_blocks_ = 0;
  Buffer memory_;  // [blocks, block_tokens, key_size + value_size]
};

}  // namespace graft::ops::cuda
