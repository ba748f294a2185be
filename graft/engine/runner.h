// Runs what the scheduler chose: makes the batch, copies the blocks that must be copied, and keeps
// the logits of the step.

#pragma once

#include <cstdint>
#include <span>
#include <vector>

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
  // Row r of the last step, to be changed at will.
  std::span<float> logits(std::int64_t row);

 private:
  models::Model& model_;
  ops::Batch batch_;
  std::vector<SequenceLogits> rows_;
  std::vector<float> logits_;
};

}  // namespace graft::engine
