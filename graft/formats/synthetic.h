// A checkpoint in memory with random weights, for benchmarks: speed depends on the shape, not on
// the values. Its vocabulary is a valid byte-level one, so that every program can tokenize with it.

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "graft/formats/weight_source.h"

namespace graft::formats {

struct SyntheticTensor {
  std::string name;
  std::vector<std::int64_t> shape;
  // Scales the row of rank r, from 1 on, by r^-row_skew: a router then prefers some experts, as
  // trained ones do. Ranks are shuffled, in every tensor otherwise.
  double row_skew = 0;
  std::int64_t num_ids = 0;  // above 0: an I32 tensor of ids below it, those of a row all different
};

// BF16 tensors, except ids: norms near 1, all others normally distributed with a standard deviation
// that keeps activations in range. All tensors share one buffer of the size of the largest.
std::unique_ptr<WeightSource> make_synthetic(std::string name,
                                             std::int64_t vocab_size,
                                             const std::vector<SyntheticTensor>& tensors);

// `size` tokens: the 256 bytes, then longer tokens with their merges, an end token last.
// Throws Error when size is below 257.
TokenizerData synthetic_vocabulary(std::int64_t size);

}  // namespace graft::formats
