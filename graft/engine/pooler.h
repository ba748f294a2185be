// Accumulates the hidden states of a text, chunk by chunk, into one embedding.

#pragma once

#include <cstdint>
#include <vector>

#include "graft/llm.h"
#include "graft/tensor/tensor.h"

namespace graft::engine {

class Pooler {
 public:
  explicit Pooler(Pooling pooling) : pooling_(pooling) {}

  // The next hidden states of the text, [t, hidden] f32 in host memory.
  void add(TensorView rows);
  void clear() { sum_.clear(); }
  // Mean pooling reads the hidden states of all tokens, so none may come from the prefix cache.
  bool needs_every_token() const { return pooling_ == Pooling::Mean; }
  // Normalized to length 1.
  std::vector<float> unit_vector() const;

 private:
  Pooling pooling_;
  std::vector<double> sum_;  // empty before the first chunk: a queued text needs no memory
};

}  // namespace graft::engine
