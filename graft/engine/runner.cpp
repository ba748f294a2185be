#include "graft/engine/runner.h"

#include <algorithm>
#include <bit>

namespace graft::engine {
namespace {

bool is_embedding(const ScheduledSequence& scheduled) {
  return scheduled.sequence->is_embedding();
}

// A step is a decode step when every sequence computes one token with a non-empty context.
ops::Phase phase_of(const Schedule& schedule) {
  const bool is_decode =
      std::ranges::all_of(schedule.sequences, [](const ScheduledSequence& scheduled) {
        return scheduled.num_tokens == 1 && scheduled.sequence->num_computed > 0 &&
               !is_embedding(scheduled);
      });
  return is_decode ? ops::Phase::Decode : ops::Phase::Prefill;
}

bool needs_prompt_logits(const Sequence& sequence) {
  return sequence.params.prompt_logprobs && sequence.num_computed < sequence.num_prompt;
}

// Rows [first_logit_row, num_tokens) of this sequence need logits.
std::int64_t first_logit_row(const ScheduledSequence& scheduled) {
  if (needs_prompt_logits(*scheduled.sequence)) return 0;
  const bool needs_logits = scheduled.is_complete() && !is_embedding(scheduled);
  return needs_logits ? scheduled.num_tokens - 1 : scheduled.num_tokens;
}

void append(ops::Batch& batch, const ScheduledSequence& scheduled) {
  const Sequence& sequence = *scheduled.sequence;
  const std::int64_t first_row = batch.num_tokens();
  for (std::int64_t i = 0; i < scheduled.num_tokens; ++i) {
    const std::int64_t position = sequence.num_computed + i;
    batch.token_ids.push_back(sequence.tokens[static_cast<std::size_t>(position)]);
    batch.positions.push_back(static_cast<std::int32_t>(position));
  }
  batch.sequences.push_back({.first_row = first_row,
                             .num_tokens = scheduled.num_tokens,
                             .context_len = sequence.num_computed + scheduled.num_tokens,
                             .block_table = sequence.table.blocks});
}

// The k that is enough for every sequence of the step; 0 when one needs all logits or more than
// max_top_k. Rounded up to a power of two so that few different CUDA graphs are captured.
std::int64_t num_top_k_for(const Schedule& schedule, std::int64_t max_top_k) {
  std::int64_t largest = 1;
  for (const ScheduledSequence& scheduled : schedule.sequences) {
    const Sequence& sequence = *scheduled.sequence;
    if (needs_prompt_logits(sequence)) return 0;
    if (!scheduled.is_complete() || is_embedding(scheduled)) continue;
    const auto needed = required_top_k(sequence.params, sequence.num_output());
    if (!needed || *needed > max_top_k) return 0;
    largest = std::max(largest, *needed);
  }
  const auto count = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(largest)));
  return count <= max_top_k ? count : 0;
}

// Adds the hidden states of embeddings to their poolers; empty when the step has no embedding.
models::HiddenObserver observer_of(const Schedule& schedule, const ops::Batch& batch) {
  if (std::ranges::none_of(schedule.sequences, is_embedding)) return {};
  const auto add = [&](std::int64_t /*index*/, TensorView hidden) {
    for (std::size_t i = 0; i < schedule.sequences.size(); ++i) {
      if (!is_embedding(schedule.sequences[i])) continue;
      const ops::SequenceSlice& slice = batch.sequences[i];
      schedule.sequences[i].sequence->pooler->add(hidden.slice(slice.first_row, slice.num_tokens));
    }
  };
  return {.see = add, .is_last_only = true};
}

}  // namespace

const std::vector<SequenceLogits>& Runner::run(const Schedule& schedule) {
  batch_ = {};
  rows_.clear();
  for (const ScheduledSequence& scheduled : schedule.sequences) {
    const std::int64_t first = first_logit_row(scheduled);
    rows_.push_back({.first_position = scheduled.sequence->num_computed + first,
                     .num_rows = scheduled.num_tokens - first,
                     .first_row = static_cast<std::int64_t>(batch_.logit_rows.size())});
    const std::int64_t batch_row = batch_.num_tokens();
    append(batch_, scheduled);
    for (std::int64_t i = first; i < scheduled.num_tokens; ++i)
      batch_.logit_rows.push_back(static_cast<std::int32_t>(batch_row + i));
  }
  for (const BlockCopy& copy : schedule.copies)
    model_.copy_block(copy.from, copy.to);
  const ops::Phase phase = phase_of(schedule);
  // With k = vocab_size, all logits without their token ids are smaller.
  const std::int64_t max_top_k = std::min(model_.max_top_k(phase), model_.vocab_size() - 1);
  num_top_k_ = num_top_k_for(schedule, max_top_k);
  forward(schedule, phase);
  return rows_;
}

void Runner::forward(const Schedule& schedule, ops::Phase phase) {
  const auto num_rows = static_cast<std::int64_t>(batch_.logit_rows.size());
  const std::int64_t num_cols = has_top_k() ? num_top_k_ : model_.vocab_size();
  const auto size = static_cast<std::size_t>(num_rows * num_cols);
  logits_.resize(size);
  models::PassOutput out = {.logits = TensorView(logits_.data(), DType::F32, {num_rows, num_cols})};
  if (has_top_k()) {
    tokens_.resize(size);
    out.tokens = TensorView(tokens_.data(), DType::I32, {num_rows, num_cols});
  }
  model_.forward(batch_, phase, out, observer_of(schedule, batch_));
}

TopK Runner::top_k(std::int64_t row) const {
  const auto count = static_cast<std::size_t>(num_top_k_);
  const std::size_t first = static_cast<std::size_t>(row) * count;
  return {.tokens = std::span(tokens_).subspan(first, count),
          .logits = std::span(logits_).subspan(first, count)};
}

std::span<float> Runner::logits(std::int64_t row) {
  const auto vocab = static_cast<std::size_t>(model_.vocab_size());
  return std::span(logits_).subspan(static_cast<std::size_t>(row) * vocab, vocab);
}

}  // namespace graft::engine
