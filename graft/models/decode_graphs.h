// Passes that generate on a GPU, brought to sizes that come again: so many sequences, contexts up
// to so long, so many candidates of each row. Such a pass is recorded once and then replayed with
// other numbers, which spares the processor asking for every kernel. Passes that are not replayed
// are brought to the same sizes, and give the same bits.

#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <memory>

#include "graft/models/decoder.h"
#include "graft/ops/device_state.h"

namespace graft::models {

class DecodeGraphCache {
 public:
  // For passes of one token per sequence, the logits of each being wanted.
  static bool fits(const ops::Batch& batch);

  // As Decoder::forward, for a decoder that can_be_captured() and a device that can record. A table
  // of the padded batch has blocks of so many tokens.
  void forward(const Decoder& decoder,
               std::int64_t block_tokens,
               const PassOutput& out,
               const ops::Pass& pass);

  // Nothing is replayed from here on, or again.
  void enforce_eager(bool is_eager) { is_eager_ = is_eager; }
  // Memory that recordings use is about to go: weights, caches.
  void forget() { entries_.clear(); }

 private:
  struct Sizes {
    std::int64_t num_sequences = 0;
    std::int64_t max_context = 0;
    std::int64_t num_top_k = 0;

    auto operator<=>(const Sizes&) const = default;
  };
  struct Entry {
    ops::Batch batch;      // recordings refer to it
    bool is_warm = false;  // went through once: memory is there, kernels are chosen
    std::unique_ptr<ops::CapturedGraph> recording;
    std::uint64_t memory_version = 0;
  };

  bool is_eager_ = false;
  std::map<Sizes, Entry> entries_;
};

// The next size that passes of so many sequences are brought to.
std::int64_t batch_bucket(std::int64_t count);
std::int64_t steady_context(std::int64_t longest);

}  // namespace graft::models
