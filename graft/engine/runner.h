// Runs what the scheduler chose: makes the batch, copies the blocks that must be copied, and keeps
// the logits of the step: all of them, or, where no sequence needs more and the device of the head
// can find them, the largest.

#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "graft/engine/sampler.h"
#include "graft/engine/scheduler.h"
#include "graft/models/model.h"

namespace graft::engine {

// Logits of one scheduled sequence: of its last row when a token can be chosen, of more when those
// of the prompt were asked for.
struct SequenceLogits {
  std::int64_t first_position = 0;  // of the first row here
  std::int64_t num_rows = 0;
  std::int64_t first_row = 0;  // in the step's logits
};

class Runner {
 public:
  explicit Runner(models::Model& model) : model_(model) {}

  // One entry per scheduled sequence, in order.
  const std::vector<SequenceLogits>& run(const Schedule& schedule);
  // Whether the last step has the largest logits only.
  bool has_top_k() const { return num_top_k_ > 0; }
  // Row r of the last step, which has all of them, to be changed at will.
  std::span<float> logits(std::int64_t row);
  // Row r of the last step, which has candidates.
  TopK likely_tokens(std::int64_t row) const;

 private:
  void forward(ops::Phase phase);

  models::Model& model_;
  ops::Batch batch_;
  std::vector<SequenceLogits> rows_;
  std::int64_t num_top_k_ = 0;   // of a row; 0: all logits
  std::vector<float> logits_;    // of all tokens, or …
  std::vector<TokenId> tokens_;  // … of these
};

}  // namespace graft::engine
