// What choosing a token needs of a row of logits on the host: the best one, or the largest few.

#pragma once

#include <cstddef>
#include <cstdint>

#include "graft/kernels/cuda/stream.h"

namespace graft::kernels::cuda {

inline constexpr std::int64_t kMaxTopK = 1024;

struct Candidates {
  std::int32_t* tokens = nullptr;  // [rows, count]
  float* logits = nullptr;         // [rows, count]
};

// The `count` largest logits of each row, the largest first, of equals the lower token. A logit
// that is no number counts as the largest; a row shorter than count ends with tokens of -1.
void top_k_logits(ConstRows logits,
                  std::int64_t rows,
                  std::int64_t vocab_size,
                  std::int64_t count,
                  const Candidates& out,
                  Stream stream);

}  // namespace graft::kernels::cuda
