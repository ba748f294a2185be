#include "graft/models/decode_graphs.h"

#include <algorithm>
#include <bit>

namespace graft::models {
namespace {

// Recordings take memory of the GPU; whoever has seen so many sizes begins anew.
constexpr std::size_t kMaxEntries = 64;
constexpr std::int64_t kMinContext = 256;

// `to` is kept in its place: recordings refer to it.
void pad(const ops::Batch& from,
         std::int64_t num_sequences,
         std::int64_t max_context,
         std::int64_t block_tokens,
         ops::Batch& to) {
  const auto size = static_cast<std::size_t>(num_sequences);
  to = from;
  to.max_context = max_context;
  to.num_padding = num_sequences - from.num_tokens();
  to.token_ids.resize(size, 0);
  to.positions.resize(size, 0);
  for (std::int64_t row = from.num_tokens(); row < num_sequences; ++row) {
    to.sequences.push_back(
        {.first_row = row, .num_tokens = 1, .context_len = 1, .block_table = {}});
    to.logit_rows.push_back(static_cast<std::int32_t>(row));
  }
  const auto num_blocks = static_cast<std::size_t>((max_context + block_tokens - 1) / block_tokens);
  for (ops::SequenceSlice& sequence : to.sequences)
    sequence.block_table.resize(std::max(num_blocks, sequence.block_table.size()), 0);
}

}  // namespace

std::int64_t batch_bucket(std::int64_t count) {
  if (count <= 8) return count;
  const std::int64_t step = count <= 64 ? 8 : 32;
  return (count + step - 1) / step * step;
}

std::int64_t steady_context(std::int64_t longest) {
  const auto least = static_cast<std::uint64_t>(std::max(longest, kMinContext));
  return static_cast<std::int64_t>(std::bit_ceil(least));
}

bool DecodeGraphCache::fits(const ops::Batch& batch) {
  return batch.num_tokens() > 0 && batch.logit_rows.size() == batch.token_ids.size() &&
         batch.sequences.size() == batch.token_ids.size();
}

void DecodeGraphCache::forward(const Decoder& decoder,
                               std::int64_t block_tokens,
                               const PassOutput& out,
                               const ops::Pass& pass) {
  std::int64_t longest = 0;
  for (const ops::SequenceSlice& sequence : pass.batch.sequences)
    longest = std::max(longest, sequence.context_len);
  const Sizes sizes = {.num_sequences = batch_bucket(pass.batch.num_tokens()),
                       .max_context = steady_context(longest),
                       .num_top_k = out.num_top_k()};
  if (entries_.size() >= kMaxEntries && !entries_.contains(sizes)) entries_.clear();
  Entry& entry = entries_[sizes];
  pad(pass.batch, sizes.num_sequences, sizes.max_context, block_tokens, entry.batch);
  ops::Pass padded{.batch = entry.batch,
                   .phase = pass.phase,
                   .pool = pass.pool,
                   .workspace = pass.workspace,
                   .profiler = pass.profiler,
                   .devices = pass.devices};
  if (is_eager_ || pass.profiler != nullptr || !entry.is_warm) {
    decoder.forward(out, {}, padded);
    entry.is_warm = true;
    return;
  }
  const std::uint64_t version = pass.devices->at(decoder.first_device()).memory_version();
  if (entry.memory_version != version) entry.recording.reset();
  decoder.run_captured(out, padded, entry.recording);
  entry.memory_version = version;
}

}  // namespace graft::models
