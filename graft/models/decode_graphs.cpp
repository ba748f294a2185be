#include "graft/models/decode_graphs.h"

#include <algorithm>
#include <bit>

#include "graft/base/check.h"

namespace graft::models {
namespace {

// A graph takes device memory; the least recently used is dropped beyond this.
constexpr std::size_t kMaxEntries = 64;
constexpr std::int64_t kMinContext = 256;

// In place: graphs refer to `to`.
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
  if (!to.sampling.rows.empty()) to.sampling.rows.resize(size);
  const auto num_blocks = static_cast<std::size_t>((max_context + block_tokens - 1) / block_tokens);
  // Exactly as long as the bucket's contexts need: the length is part of the captured kernels.
  for (ops::SequenceSlice& sequence : to.sequences)
    sequence.block_table.resize(num_blocks, 0);
}

}  // namespace

std::int64_t batch_bucket(std::int64_t num_sequences) {
  if (num_sequences <= 8) return num_sequences;
  const std::int64_t step = num_sequences <= 64 ? 8 : 32;
  return (num_sequences + step - 1) / step * step;
}

std::int64_t context_bucket(std::int64_t longest) {
  const auto context = static_cast<std::uint64_t>(std::max(longest, kMinContext));
  return static_cast<std::int64_t>(std::bit_ceil(context));
}

bool DecodeGraphCache::fits(const ops::Batch& batch) {
  return batch.num_tokens() > 0 && batch.given_rows.empty() &&
         batch.logit_rows.size() == batch.token_ids.size() &&
         batch.sequences.size() == batch.token_ids.size();
}

DecodeGraphCache::Entry& DecodeGraphCache::entry_for(const Bucket& bucket) {
  const auto found = std::ranges::find(entries_, bucket, &Entry::bucket);
  if (found != entries_.end()) {
    entries_.splice(entries_.begin(), entries_, found);
    return entries_.front();
  }
  if (entries_.size() >= kMaxEntries) entries_.pop_back();
  entries_.emplace_front();
  entries_.front().bucket = bucket;
  return entries_.front();
}

void DecodeGraphCache::forward(const Decoder& decoder,
                               std::int64_t block_tokens,
                               const PassOutput& out,
                               const ops::Pass& pass) {
  std::int64_t longest = 0;
  for (const ops::SequenceSlice& sequence : pass.batch.sequences)
    longest = std::max(longest, sequence.context_len);
  Entry& entry = entry_for({.num_sequences = batch_bucket(pass.batch.num_tokens()),
                            .max_context = context_bucket(longest),
                            .is_sampled = out.is_sampled,
                            .is_kept = out.is_kept,
                            .has_adapters = pass.lora != nullptr});
  pad(pass.batch, entry.bucket.num_sequences, entry.bucket.max_context, block_tokens, entry.batch);
  ops::Pass padded = with(pass, entry.batch, pass.workspace);
  if (!is_eager_ && entry.is_warm) return run_captured(decoder, out, padded, entry);
  decoder.forward(out, {}, padded);
  entry.is_warm = true;
}

void DecodeGraphCache::run_captured(const Decoder& decoder,
                                    const PassOutput& out,
                                    ops::Pass& pass,
                                    Entry& entry) {
  const DecoderScope scope(decoder, pass);
  ops::GraphCapture* graphs = pass.devices->at(decoder.first_device()).graph_capture();
  GRAFT_CHECK(graphs != nullptr, "the device does not support graphs");
  decoder.begin_pass(pass);
  const TensorView staged = decoder.allocate_staged(out, pass);
  const TensorView x = decoder.embed(pass);
  // After begin_pass(), which may have replaced memory.
  if (entry.memory_version != graphs->memory_version()) entry.graph.reset();
  if (entry.graph == nullptr) {
    entry.graph = graphs->capture([&] {
      ops::Hidden hidden = {.x = x, .residual = {}};
      decoder.start_output(decoder.run_layers(hidden, {}, pass), out, staged, pass);
    });
    entry.memory_version = graphs->memory_version();
    if (out.is_kept) entry.kept_logits = pass.devices->at(decoder.head_device()).kept_logits();
  }
  if (out.is_kept) pass.devices->at(decoder.head_device()).keep_logits(entry.kept_logits);
  graphs->replay(*entry.graph);
  ++num_replays_;
  decoder.finish_output(out, staged, pass.batch.num_tokens() - pass.batch.num_padding, pass);
}

}  // namespace graft::models
