#include "graft/engine/runner.h"

#include <algorithm>
#include <utility>

#include "graft/ops/params.h"

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

// The rows of images have their features for embeddings, and token 0: their ids are above the
// vocabulary.
void append_images(ops::Batch& batch,
                   const ScheduledSequence& scheduled,
                   std::int64_t first_row,
                   std::int64_t hidden_size) {
  const Sequence& sequence = *scheduled.sequence;
  for (const SequenceImage& image : sequence.images) {
    const std::int64_t begin = std::max(image.first, sequence.num_computed);
    const std::int64_t end = std::min(image.end(), sequence.num_computed + scheduled.num_tokens);
    if (begin >= end) continue;
    const std::int64_t row = first_row + begin - sequence.num_computed;
    std::fill_n(batch.token_ids.begin() + row, end - begin, 0);
    batch.given_rows.push_back(
        {.first_row = row,
         .count = end - begin,
         .values = image.features->data() + (begin - image.first) * hidden_size});
  }
}

// Guessed tokens are rows of the sequence's slice, or with `splits_rows` of slices with one token
// each: each layer writes all keys and values of the batch before it reads any.
void append_slices(ops::Batch& batch,
                   const ScheduledSequence& scheduled,
                   std::int64_t first_row,
                   bool splits_rows) {
  const Sequence& sequence = *scheduled.sequence;
  ops::SequenceSlice slice = {.first_row = first_row,
                              .num_tokens = scheduled.num_tokens,
                              .context_len = sequence.num_computed + scheduled.num_tokens,
                              .block_table = sequence.table.blocks,
                              .state_slot = sequence.state_slot,
                              .checkpoints = scheduled.checkpoints,
                              .adapter = sequence.adapter ? sequence.adapter->index : -1};
  const auto num_drafts = static_cast<std::int64_t>(scheduled.drafts.size());
  if (!splits_rows) {
    slice.num_tokens += num_drafts;
    slice.context_len += num_drafts;
  }
  batch.sequences.push_back(std::move(slice));
  if (!splits_rows) return;
  for (std::int64_t i = 0; i < num_drafts; ++i) {
    ops::SequenceSlice row = batch.sequences.back();
    row.first_row += row.num_tokens;
    row.num_tokens = 1;
    ++row.context_len;
    batch.sequences.push_back(std::move(row));
  }
}

void append(ops::Batch& batch,
            const ScheduledSequence& scheduled,
            std::int64_t hidden_size,
            bool splits_rows) {
  const Sequence& sequence = *scheduled.sequence;
  const std::int64_t first_row = batch.num_tokens();
  const std::int32_t flag = sequence.uses_long_rope ? ops::kLongRopeFlag : 0;
  for (std::int64_t i = 0; i < scheduled.num_tokens; ++i) {
    const std::int64_t position = sequence.num_computed + i;
    const auto at = static_cast<std::size_t>(position);
    batch.token_ids.push_back(at < sequence.tokens.size() ? sequence.tokens[at]
                                                          : -1 - sequence.sampled_row);
    batch.positions.push_back(static_cast<std::int32_t>(position) + flag);
  }
  append_images(batch, scheduled, first_row, hidden_size);
  for (const TokenId token : scheduled.drafts) {
    batch.token_ids.push_back(token);
    batch.positions.push_back(batch.positions.back() + 1);
  }
  append_slices(batch, scheduled, first_row, splits_rows);
}

// Adds the hidden states of embeddings to their poolers; empty when the step has no embedding.
models::HiddenObserver observer_of(const Schedule& schedule) {
  if (std::ranges::none_of(schedule.sequences, is_embedding)) return {};
  const auto add = [&](std::int64_t /*index*/, TensorView hidden) {
    std::int64_t first_row = 0;
    for (const ScheduledSequence& scheduled : schedule.sequences) {
      if (is_embedding(scheduled))
        scheduled.sequence->pooler->add(hidden.slice(first_row, scheduled.num_tokens));
      first_row += scheduled.num_rows();
    }
  };
  return {.see = add, .is_last_only = true};
}

}  // namespace

bool Runner::can_sample(const Schedule& schedule) {
  return model_.can_sample(phase_of(schedule));
}

std::vector<SequenceLogits> Runner::prepare(const Schedule& schedule) {
  batch_ = {};
  std::vector<SequenceLogits> rows;
  // As decode passes of one token per sequence are, which may run as a graph.
  const bool splits_rows = model_.has_decode_graphs();
  for (const ScheduledSequence& scheduled : schedule.sequences) {
    const std::int64_t first = first_logit_row(scheduled);
    rows.push_back({.first_position = scheduled.sequence->num_computed + first,
                    .num_rows = scheduled.num_tokens - first,
                    .first_row = static_cast<std::int64_t>(batch_.logit_rows.size())});
    const std::int64_t batch_row = batch_.num_tokens();
    append(batch_, scheduled, model_.hidden_size(), splits_rows);
    for (std::int64_t i = first; i < scheduled.num_rows(); ++i)
      batch_.logit_rows.push_back(static_cast<std::int32_t>(batch_row + i));
  }
  for (const BlockCopy& copy : schedule.copies)
    model_.copy_block(copy.from, copy.to);
  for (const StateCopy& copy : schedule.state_copies)
    model_.copy_state(copy.from, copy.to);
  for (const TierFill& fill : schedule.state_loads)
    model_.load_state(fill.to, fill.entry->bytes.bytes());
  return rows;
}

std::vector<SequenceLogits> Runner::start_unsampled(const Schedule& schedule) {
  std::vector<SequenceLogits> rows = prepare(schedule);
  model_.start_unsampled(batch_, phase_of(schedule));
  return rows;
}

std::vector<SequenceLogits> Runner::start(const Schedule& schedule,
                                          std::optional<ops::BatchSampling> sampling) {
  std::vector<SequenceLogits> rows = prepare(schedule);
  const ops::Phase phase = phase_of(schedule);
  if (sampling) {
    batch_.sampling = *std::move(sampling);
    model_.start(batch_, phase);
    return rows;
  }
  const auto num_rows = static_cast<std::int64_t>(batch_.logit_rows.size());
  logits_.resize(static_cast<std::size_t>(num_rows * model_.vocab_size()));
  model_.forward(batch_, phase,
                 TensorView(logits_.data(), DType::F32, {num_rows, model_.vocab_size()}),
                 observer_of(schedule));
  return rows;
}

std::span<float> Runner::logits(std::int64_t row) {
  const auto vocab = static_cast<std::size_t>(model_.vocab_size());
  return std::span(logits_).subspan(static_cast<std::size_t>(row) * vocab, vocab);
}

}  // namespace graft::engine
