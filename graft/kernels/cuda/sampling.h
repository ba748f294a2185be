// Top-k of logits on the GPU, so that sampling copies k values per row to the host, not the
// vocabulary.

#pragma once

#include <cstddef>
#include <cstdint>

#include "graft/kernels/cuda/stream.h"

namespace graft::kernels::cuda {

inline constexpr std::int64_t kMaxTopK = 1024;  // threads of a block, each sorts one entry

struct TopK {
  std::int32_t* tokens = nullptr;  // [rows, count]
  float* logits = nullptr;         // [rows, count]
};

// The `count` largest of logits[rows, vocab_size] f32 per row, in descending order; ties go to the
// lower token. NaN sorts first. When vocab_size < count, the rest of `tokens` is -1.
void top_k_logits(ConstRows logits,
                  std::int64_t rows,
                  std::int64_t vocab_size,
                  std::int64_t count,
                  const TopK& out,
                  Stream stream);

}  // namespace graft::kernels::cuda
