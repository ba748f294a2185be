// Sampling on the GPU: of a row of logits, one token leaves it.
//
// Probabilities are integers (exp rounded down to multiples of 2^-40), so their sums do not depend
// on the order of additions: the token of a row depends on its logits and parameters only. Tokens
// less likely than e^-27 times the most likely one are not sampled.

#pragma once

#include <cstddef>
#include <cstdint>

#include "graft/kernels/cuda/stream.h"
#include "graft/kernels/sampling_types.h"

namespace graft::kernels::cuda {

// Scratch memory of sample_tokens(); 0 where a row fits into the shared memory of a cluster.
std::size_t sample_tokens_bytes(std::int64_t rows, std::int64_t vocab_size);

// tokens[rows] for logits[rows, vocab_size] f32 and rows[rows]; the edits of a row are
// edits[first_edit, first_edit + num_edits). Greedy: the first of the largest logits. -1: every
// token is masked, or a logit is NaN or +infinity. Does not change the logits.
struct SamplingJob {
  const RowSampling* rows = nullptr;
  const LogitEdit* edits = nullptr;
  const std::uint32_t* masks = nullptr;  // RowSampling::first_mask counts from here
  std::int32_t* tokens = nullptr;
};
void sample_tokens(ConstRows logits,
                   std::int64_t rows,
                   std::int64_t vocab_size,
                   const SamplingJob& job,
                   void* scratch,
                   Stream stream);

// ids[i] = tokens[-1 - ids[i]] for negative ids[i]: the tokens that an earlier pass has sampled. A
// failed sample becomes token 0.
void resolve_tokens(std::int32_t* ids,
                    std::int64_t count,
                    const std::int32_t* tokens,
                    Stream stream);

}  // namespace graft::kernels::cuda
