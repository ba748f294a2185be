// Blocks of the KV caches of all layers on a GPU, gathered to one place each and scattered from it,
// so that a block crosses PCIe in one copy.

#pragma once

#include <cstddef>
#include <cstdint>

#include "graft/kernels/cuda/stream.h"

namespace graft::kernels::cuda {

// The part of every block that one layer has: block b is at blocks + b * bytes.
struct CacheBlockPart {
  std::byte* blocks = nullptr;
  std::size_t bytes = 0;
  std::size_t offset = 0;  // in a gathered block
};

inline constexpr int kMaxCopiedBlocks = 64;

struct CopyBlocksJob {
  const CacheBlockPart* parts = nullptr;  // in GPU memory
  std::int64_t num_parts = 0;
  std::int64_t num_blocks = 0;  // at most kMaxCopiedBlocks
  std::int64_t blocks[kMaxCopiedBlocks] = {};
  // Gathered blocks; 16-byte aligned, as the caches are.
  std::byte* gathered[kMaxCopiedBlocks] = {};
};

void gather_blocks(const CopyBlocksJob& job, Stream stream);
void scatter_blocks(const CopyBlocksJob& job, Stream stream);

}  // namespace graft::kernels::cuda
