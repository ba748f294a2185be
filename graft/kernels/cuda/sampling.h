// What sampling needs of the logits on the host: the best token of a row, or its most likely tokens
// with the sum that makes probabilities of them. Ties go to the lower token.

#pragma once

#include <cstddef>
#include <cstdint>

#include "graft/kernels/cuda/stream.h"

namespace graft::cuda {

// tokens[row] = the first of the largest logits. A logit that is no number counts as the largest.
void argmax(ConstRows logits,
            std::int64_t rows,
            std::int64_t vocab_size,
            std::int32_t* tokens,
            Stream stream);

inline constexpr std::int64_t kMostCandidates = 1024;

// The `count` largest logits of each row, the largest first; a row shorter than that ends with
// tokens of -1. The probability of a candidate at temperature 1 is exp(logit - max) / sum.
struct Candidates {
  std::int32_t* tokens = nullptr;  // [rows, count]
  float* logits = nullptr;         // [rows, count]
  float* max = nullptr;            // [rows]
  float* sum = nullptr;  // [rows], of exp((logit - max) / temperature) over the vocabulary
};

// temperatures[rows] are those of the sums only; null: 1. The order of the sum depends on
// vocab_size alone.
void top_candidates(ConstRows logits,
                    const float* temperatures,
                    std::int64_t rows,
                    std::int64_t vocab_size,
                    std::int64_t count,
                    const Candidates& out,
                    Stream stream);

}  // namespace graft::cuda
