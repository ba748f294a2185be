// How a device samples tokens from logits: parameters of each row and changes of single logits.
// Shared by the kernels and the batches of passes.

#pragma once

#include <cstdint>

namespace graft::kernels {

// Changes the logit of one token, in this order: adds `bias`; divides a positive logit by
// `repetition`, multiplies others by it; subtracts `penalty`. A bias of -infinity masks the token.
struct LogitEdit {
  std::int32_t token = 0;
  float bias = 0.0F;
  float repetition = 1.0F;
  float penalty = 0.0F;
};

// One row of logits: edits, then greedy, or temperature, top-k, min-p and top-p and a draw. At most
// one edit per token.
struct RowSampling {
  double top_p = 1.0;
  double draw = 0.0;         // uniform in [0, 1): selects the token by ascending id
  float temperature = 0.0F;  // 0: greedy
  float min_p = 0.0F;        // relative to the most likely token; 0: off
  std::int32_t top_k = 0;    // 0: off
  std::int32_t first_edit = 0;
  std::int32_t num_edits = 0;
  std::int32_t masks_unedited = 0;  // 1: every token without an edit is masked
  // The row's bits of allowed tokens begin at this word of the masks, token t is bit t % 32 of word
  // t / 32; other tokens are masked, whatever their edits. -1: all are allowed.
  std::int32_t first_mask = -1;
};

}  // namespace graft::kernels
