// Runs one scheduled step: builds the batch, does the copy-on-write block copies, and starts the
// pass. Tokens are sampled on the device; otherwise the logits of the step are kept on the host.
// The hidden states of embeddings are added to their poolers.

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "graft/engine/scheduler.h"
#include "graft/models/model.h"
#include "graft/ops/pass.h"

namespace graft::engine {

// The logits rows of one scheduled sequence: the last row when its next token can be sampled, every
// row when prompt logprobs were requested. The rows of its guessed tokens follow.
struct SequenceLogits {
  std::int64_t first_position = 0;  // position of the first row in the sequence
  std::int64_t num_rows = 0;
  std::int64_t first_row = 0;  // index of the first row in the logits of the step

  std::int64_t sampled_row() const { return first_row + num_rows - 1; }
};

class Runner {
 public:
  explicit Runner(models::Model& model) : model_(model) {}

  // Whether the device of the step's head can sample.
  bool can_sample(const Schedule& schedule);
  // With `sampling`, which has a row per row of logits: starts the step; Model::finish() returns
  // its tokens. Without: returns when its logits are on the host. One entry per scheduled sequence,
  // in order.
  std::vector<SequenceLogits> start(const Schedule& schedule,
                                    std::optional<ops::BatchSampling> sampling);
  // The same with sampling that follows: Model::sample().
  std::vector<SequenceLogits> start_unsampled(const Schedule& schedule);
  // All logits of a row of the last step without sampling; the caller may modify them.
  std::span<float> logits(std::int64_t row);

 private:
  // Fills batch_ and starts the copies of blocks and states.
  std::vector<SequenceLogits> prepare(const Schedule& schedule);

  models::Model& model_;
  ops::Batch batch_;
  std::vector<float> logits_;  // [rows, vocab_size]
};

}  // namespace graft::engine
