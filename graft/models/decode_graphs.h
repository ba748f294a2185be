// CUDA graphs of decode passes: pad to a bucket, capture, replay. One graph per bucket of batch
// size, context length and output; a batch is padded to the next bucket. Eager passes are padded
// the same way, so they give the same bits.

#pragma once

#include <compare>
#include <cstdint>
#include <list>
#include <memory>

#include "graft/models/decoder.h"
#include "graft/ops/devices/device_context.h"

namespace graft::models {

class DecodeGraphCache {
 public:
  // Whether the batch has one token per sequence and logits are requested for each.
  static bool fits(const ops::Batch& batch);

  // Like Decoder::forward. Requires decoder.can_be_captured() and a device that supports graphs.
  // `block_tokens`: tokens per block of the KV cache.
  void forward(const Decoder& decoder,
               std::int64_t block_tokens,
               const PassOutput& out,
               const ops::Pass& pass);

  // While true, passes run eagerly: no capture, no replay.
  void enforce_eager(bool is_eager) { is_eager_ = is_eager; }
  // Call before weights or KV caches are freed: graphs hold their addresses.
  void clear() { entries_.clear(); }
  std::size_t size() const { return entries_.size(); }
  std::int64_t num_replays() const { return num_replays_; }

 private:
  struct Bucket {
    std::int64_t num_sequences = 0;
    std::int64_t max_context = 0;
    bool is_sampled = false;
    bool is_kept = false;
    bool has_adapters = false;

    bool operator==(const Bucket&) const = default;
  };
  struct Entry {
    Bucket bucket;
    ops::Batch batch;      // padded; the graph's host calls refer to it
    bool is_warm = false;  // has run eagerly once: memory is allocated, kernels are selected
    std::unique_ptr<ops::CapturedGraph> graph;
    std::uint64_t memory_version = 0;  // when the graph was captured
    TensorView kept_logits;            // that the graph writes, of a bucket that keeps them
  };

  Entry& entry_for(const Bucket& bucket);
  void run_captured(const Decoder& decoder, const PassOutput& out, ops::Pass& pass, Entry& entry);

  bool is_eager_ = false;
  std::int64_t num_replays_ = 0;
  std::list<Entry> entries_;  // most recently used first
};

// The buckets for a batch size and for the longest context in the batch, in tokens.
std::int64_t batch_bucket(std::int64_t num_sequences);
std::int64_t context_bucket(std::int64_t longest);

}  // namespace graft::models
