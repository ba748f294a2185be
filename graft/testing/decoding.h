// For tests: sequences of different lengths that decode side by side in a model.

#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "graft/models/model.h"

namespace graft::models::testing {

inline constexpr std::int64_t kDecodeSteps = 5;

class Decoding {
 public:
  Decoding(Model& model, std::int64_t num_sequences, std::int64_t num_steps = kDecodeSteps)
      : model_(model),
        num_sequences_(num_sequences),
        num_steps_(num_steps),
        blocks_each_((kPromptTokens + num_sequences + num_steps_) / model.block_tokens() + 1) {
    model.allocate_cache(num_sequences * blocks_each_);
    if (model.has_states()) model.allocate_states(num_sequences);
    ops::Batch prompts;
    for (std::int64_t s = 0; s < num_sequences; ++s)
      append(s, 0, kPromptTokens + s, prompts);
    forward(prompts, ops::Phase::Prefill);
  }

  // The logits of one more token of each sequence.
  std::vector<float> step(std::int64_t step) {
    ops::Batch batch;
    for (std::int64_t s = 0; s < num_sequences_; ++s)
      append(s, kPromptTokens + s + step, 1, batch);
    return forward(batch, ops::Phase::Decode);
  }
  std::vector<std::vector<float>> all_steps() {
    std::vector<std::vector<float>> logits;
    for (std::int64_t i = 0; i < num_steps_; ++i)
      logits.push_back(step(i));
    return logits;
  }

 private:
  void append(std::int64_t s, std::int64_t first, std::int64_t count, ops::Batch& batch) const {
    ops::SequenceSlice slice = {.first_row = batch.num_tokens(),
                                .num_tokens = count,
                                .context_len = first + count,
                                .block_table = {},
                                .state_slot = static_cast<std::int32_t>(s)};
    for (std::int64_t i = 0; i < blocks_each_; ++i)
      slice.block_table.push_back(static_cast<std::int32_t>(s * blocks_each_ + i));
    for (std::int64_t i = first; i < first + count; ++i) {
      batch.token_ids.push_back(static_cast<std::int32_t>((7 * s + 3 * i) % model_.vocab_size()));
      batch.positions.push_back(static_cast<std::int32_t>(i));
    }
    batch.sequences.push_back(std::move(slice));
    batch.logit_rows.push_back(static_cast<std::int32_t>(batch.num_tokens() - 1));
  }

  std::vector<float> forward(const ops::Batch& batch, ops::Phase phase) {
    std::vector<float> logits(static_cast<std::size_t>(num_sequences_ * model_.vocab_size()));
    model_.forward(batch, phase,
                   TensorView(logits.data(), DType::F32, {num_sequences_, model_.vocab_size()}));
    return logits;
  }

  static constexpr std::int64_t kPromptTokens = 5;

  Model& model_;
  std::int64_t num_sequences_;
  std::int64_t num_steps_;
  std::int64_t blocks_each_;
};

}  // namespace graft::models::testing
