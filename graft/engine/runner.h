// Runs one scheduled step: builds the batch, does the copy-on-write block copies, and keeps the
// logits of the step. When the top k are enough for every sequence and the device of the head can
// select them, only those are copied to the host. The hidden states of embeddings are added to
// their poolers.

#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "graft/engine/sampler.h"
#include "graft/engine/scheduler.h"
#include "graft/models/model.h"
#include "graft/ops/pass.h"

namespace graft::engine {

// The logits rows of one scheduled sequence: the last row when its next token can be sampled, every
// row when prompt logprobs were requested.
struct SequenceLogits {
  std::int64_t first_position = 0;  // position of the first row in the sequence
  std::int64_t num_rows = 0;
  std::int64_t first_row = 0;  // index of the first row in the logits of the step
};

class Runner {
 public:
  explicit Runner(models::Model& model) : model_(model) {}

  // Returns one entry per scheduled sequence, in order.
  const std::vector<SequenceLogits>& run(const Schedule& schedule);
  // Whether the last step returned the top k instead of all logits.
  bool has_top_k() const { return num_top_k_ > 0; }
  // All logits of a row; the caller may modify them. Requires !has_top_k().
  std::span<float> logits(std::int64_t row);
  // The top k of a row. Requires has_top_k().
  TopK top_k(std::int64_t row) const;

 private:
  void forward(const Schedule& schedule, ops::Phase phase);

  models::Model& model_;
  ops::Batch batch_;
  std::vector<SequenceLogits> rows_;
  std::int64_t num_top_k_ = 0;   // per row; 0: all logits
  std::vector<float> logits_;    // [rows, num_top_k] or [rows, vocab_size]
  std::vector<TokenId> tokens_;  // [rows, num_top_k]; unused without top k
};

}  // namespace graft::engine
