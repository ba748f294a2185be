// The sequences of a pass by the form in which latent attention computes them.

#pragma once

#include <cstdint>
#include <vector>

#include "graft/kernels/cuda/mla/mla.h"
#include "graft/ops/cuda/runtime/cuda_context.h"

namespace graft::ops::cuda {

// How sequences of several tokens are computed; single tokens are always absorbed.
enum class PrefillForm : std::uint8_t { Cheapest, Absorbed, Expanded };

// Whether the expanded form takes fewer products for num_tokens new tokens of a context. A prompt
// does; a short chunk after a long cached prefix does not, since the whole prefix is expanded.
bool is_expanded_cheaper(const kernels::cuda::MlaShape& shape,
                         std::int64_t num_tokens,
                         std::int64_t context_len);

// Consecutive sequences of one form.
struct MlaRun {
  bool is_expanded = false;
  kernels::cuda::AttentionBatch batch;  // row 0 is row first_row of the pass
  std::int64_t first_row = 0;
  std::int64_t num_positions = 0;  // the context lengths of all sequences
};

// Of an expanded run: bounds the packed latents and the search for a slot's sequence. A longer
// sequence is a run alone.
inline constexpr std::int64_t kMaxRunPositions = 32768;
inline constexpr std::int64_t kMaxRunSequences = 64;

// All runs of the pass in order of their rows; absorbed ones have at most kMlaAbsorbedRows rows, or
// one sequence. Empty: all rows are absorbed at once.
std::vector<MlaRun> runs_of_pass(const kernels::cuda::MlaShape& shape,
                                 PrefillForm form,
                                 const Batch& batch,
                                 const CudaContext& gpu,
                                 std::int64_t block_tokens);

}  // namespace graft::ops::cuda
