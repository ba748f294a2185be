// Hyper-connections: the hidden states are `mult` streams, which a block reads as a weighted sum
// and writes to with weights of its own while a matrix mixes them. ops/cpu/compressed is the
// reference. The bits of a row do not depend on the other rows.
//
// The logits of a row: `mult` weights to read the streams, as many to write to them, and the matrix
// [from, to] that mixes them; the head has the first only.

#pragma once

#include <cstddef>
#include <cstdint>

#include "graft/kernels/cuda/stream.h"

namespace graft::kernels::cuda {

inline constexpr std::int64_t kMaxHyperStreams = 16;

struct HyperShape {
  std::int64_t hidden = 0;
  std::int64_t mult = 0;  // streams, at most kMaxHyperStreams
  std::int64_t sinkhorn_iters = 0;
  float eps = 0;
  float norm_eps = 0;
  bool is_head = false;

  std::int64_t num_logits() const { return is_head ? mult : (2 + mult) * mult; }
};

struct HyperWeights {
  const float* fn = nullptr;     // [num_logits, mult * hidden]
  const float* base = nullptr;   // [num_logits]
  const float* scale = nullptr;  // of the three parts of the logits; one for the head
};

// streams[rows, mult * hidden] = copies of x[rows, hidden]
void replicate_streams(
    const HyperShape& shape, ConstRows x, Rows streams, std::int64_t rows, Stream stream);

// Scratch bytes of collapse_streams().
std::size_t collapse_streams_bytes(const HyperShape& shape, std::int64_t rows);
// y[rows, hidden] = the weighted sum of the streams; mix[rows, mult + mult * mult] = the weights of
// the block's output, then the matrix; not written for the head.
void collapse_streams(const HyperShape& shape,
                      const HyperWeights& weights,
                      ConstRows streams,
                      Rows y,
                      Rows mix,
                      std::int64_t rows,
                      void* scratch,
                      Stream stream);

// streams = the mixed streams + y[rows, hidden] with the weight of each.
void add_to_streams(const HyperShape& shape,
                    ConstRows y,
                    ConstRows mix,
                    Rows streams,
                    std::int64_t rows,
                    Stream stream);

}  // namespace graft::kernels::cuda
