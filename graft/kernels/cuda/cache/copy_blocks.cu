#include "graft/kernels/cuda/cache/copy_blocks.h"

#include "graft/base/check.h"
#include "graft/kernels/cuda/launch.cuh"

namespace graft::kernels::cuda {
namespace {

constexpr int kThreads = 256;
// Thread blocks per part: enough to fill a GPU with a few blocks of some layers.
constexpr unsigned kSlices = 2;

template <class Word>
__device__ void copy_words(const std::byte* from, std::byte* to, std::size_t bytes) {
  const auto* words = reinterpret_cast<const Word*>(from);
  auto* out = reinterpret_cast<Word*>(to);
  for (std::size_t i = blockIdx.z * kThreads + threadIdx.x; i < bytes / sizeof(Word);
       i += std::size_t{kSlices} * kThreads)
    out[i] = words[i];
}

// Grid: (parts, blocks, slices).
template <bool kGathers>
__global__ void __launch_bounds__(kThreads)
    copy_blocks_kernel(const __grid_constant__ CopyBlocksJob job) {
  begin_kernel();
  const CacheBlockPart part = job.parts[blockIdx.x];
  std::byte* block = part.blocks + job.blocks[blockIdx.y] * part.bytes;
  std::byte* gathered = job.gathered[blockIdx.y] + part.offset;
  const std::byte* from = kGathers ? block : gathered;
  std::byte* to = kGathers ? gathered : block;
  // Blocks of odd sizes are those of tests.
  const bool is_aligned = (part.bytes | part.offset) % sizeof(uint4) == 0;
  if (is_aligned) {
    copy_words<uint4>(from, to, part.bytes);
  } else {
    copy_words<unsigned char>(from, to, part.bytes);
  }
}

template <bool kGathers>
void launch_copy(const CopyBlocksJob& job, Stream stream) {
  if (job.num_blocks == 0) return;
  GRAFT_CHECK(job.num_blocks <= kMaxCopiedBlocks, job.num_blocks, " blocks");
  const dim3 grid(static_cast<unsigned>(job.num_parts), static_cast<unsigned>(job.num_blocks),
                  kSlices);
  launch(kGathers ? "gather_blocks" : "scatter_blocks", copy_blocks_kernel<kGathers>,
         {grid, kThreads}, stream, job);
}

}  // namespace

void gather_blocks(const CopyBlocksJob& job, Stream stream) {
  launch_copy<true>(job, stream);
}

void scatter_blocks(const CopyBlocksJob& job, Stream stream) {
  launch_copy<false>(job, stream);
}

}  // namespace graft::kernels::cuda
