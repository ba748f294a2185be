#include "graft/ops/cuda/attention/mla_runs.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "graft/ops/devices/cuda_operators.h"

namespace graft::ops::cuda {
namespace {

// A sequence of the pass, and its place in the arrays of its group (CudaContext::sequences).
struct PlacedSequence {
  const SequenceSlice* slice = nullptr;
  const CudaContext::Sequences* group = nullptr;
  std::int64_t idx = 0;  // in the group
  bool is_expanded = false;
};

bool is_expanded(const kernels::cuda::MlaShape& shape,
                 PrefillForm form,
                 const SequenceSlice& sequence) {
  if (sequence.num_tokens <= 1 || form == PrefillForm::Absorbed) return false;
  return form == PrefillForm::Expanded ||
         is_expanded_cheaper(shape, sequence.num_tokens, sequence.context_len);
}

MlaRun run_of(const PlacedSequence& first) {
  const kernels::cuda::AttentionBatch& group = first.group->batch;
  MlaRun run = {
      .is_expanded = first.is_expanded, .batch = group, .first_row = first.slice->first_row};
  run.batch.first_rows += first.idx;
  run.batch.num_tokens += first.idx;
  run.batch.context_lens += first.idx;
  run.batch.block_tables += first.idx * group.table_stride;
  run.batch.base_row = first.slice->first_row - first.group->first_row;
  run.batch.num_sequences = run.batch.num_rows = run.batch.max_tokens = run.batch.max_context = 0;
  return run;
}

void append(MlaRun& run, const SequenceSlice& sequence) {
  kernels::cuda::AttentionBatch& batch = run.batch;
  ++batch.num_sequences;
  batch.num_rows = sequence.first_row + sequence.num_tokens - run.first_row;
  batch.max_tokens = std::max(batch.max_tokens, sequence.num_tokens);
  batch.max_context = std::max(batch.max_context, sequence.context_len);
  run.num_positions += sequence.context_len;
}

bool has_room(const MlaRun& run, const SequenceSlice& sequence) {
  if (!run.is_expanded) return run.batch.num_rows + sequence.num_tokens <= kMlaAbsorbedRows;
  return run.num_positions + sequence.context_len <= kMaxRunPositions &&
         run.batch.num_sequences < kMaxRunSequences;
}

}  // namespace

bool is_expanded_cheaper(const kernels::cuda::MlaShape& shape,
                         std::int64_t num_tokens,
                         std::int64_t context_len) {
  const auto tokens = static_cast<double>(num_tokens);
  const auto context = static_cast<double>(context_len);
  // Per head. Causal: token i of the chunk sees all but the last tokens - 1 - i positions.
  const double pairs = tokens * context - tokens * (tokens - 1) / 2;
  const auto projection = static_cast<double>(shape.rank * (shape.nope + shape.value));
  const double absorbed =
      pairs * static_cast<double>(2 * shape.rank + shape.rope) + tokens * projection;
  const double expanded =
      pairs * static_cast<double>(shape.nope + shape.rope + shape.value) + context * projection;
  return expanded < absorbed;
}

std::vector<MlaRun> runs_of_pass(const kernels::cuda::MlaShape& shape,
                                 PrefillForm form,
                                 const Batch& batch,
                                 const CudaContext& gpu,
                                 std::int64_t block_tokens) {
  const auto expands = [&](const SequenceSlice& s) { return is_expanded(shape, form, s); };
  const bool has_expanded = std::ranges::any_of(batch.sequences, expands);
  // Passes of single tokens keep their context bucket: they are captured.
  const bool has_prefill =
      std::ranges::any_of(batch.sequences, [](const SequenceSlice& s) { return s.num_tokens > 1; });
  const bool is_small = !has_expanded && batch.num_tokens() <= kMlaAbsorbedRows;
  if (form == PrefillForm::Absorbed || !has_prefill || is_small) return {};
  const std::array<CudaContext::Sequences, 2> groups = gpu.sequences(block_tokens);
  std::array<std::int64_t, 2> next = {0, 0};
  std::vector<MlaRun> runs;
  PlacedSequence last;
  for (const SequenceSlice& slice : batch.sequences) {
    const std::size_t group = slice.num_tokens > 1 ? 0 : 1;  // prefill, decode
    const PlacedSequence sequence = {.slice = &slice,
                                     .group = &groups[group],
                                     .idx = next[group]++,
                                     .is_expanded = expands(slice)};
    const bool continues = last.group == sequence.group &&
                           last.is_expanded == sequence.is_expanded && has_room(runs.back(), slice);
    if (!continues) runs.push_back(run_of(sequence));
    append(runs.back(), slice);
    last = sequence;
  }
  return runs;
}

}  // namespace graft::ops::cuda
