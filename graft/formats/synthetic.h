// A checkpoint that exists only in memory: a model's shape with weights drawn at random. What it
// says makes no sense; how fast it runs does. Its vocabulary is a real byte-level one, so that
// every program can tokenize with it.

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
};

// BF16 tensors: norms near 1, all others normal with a deviation that keeps activations in range.
// All of them share one buffer as large as the largest.
std::unique_ptr<WeightSource> make_synthetic(ModelConfig config,
                                             const std::vector<SyntheticTensor>& tensors);

// `size` tokens: the 256 bytes, then longer ones with the merges that make them, an end token last.
// Throws Error when size is below 257.
TokenizerData synthetic_vocabulary(std::int64_t size);

}  // namespace graft::formats
