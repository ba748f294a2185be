// The entries of a compressor: projections, the cache of windows, and the cache of entries.
//
// Both caches are pages of rows per token like every KV cache, so prefix sharing, preemption and
// restarts copy them like other blocks. Each token's projection and logits stay in "window_cache";
// the pass that adds the last token of a window reads the window back from there and writes the
// entry into the row of that token in "kv_cache" (entry e is in row (e + 1) * rate - 1, other rows
// are 0). What an entry is computed from is always read from the cache, so its bits do not depend
// on where passes begin and end.

#pragma once

#include <memory>

#include "graft/ops/operator.h"
#include "graft/ops/primitives.h"
#include "graft/ops/registry.h"

namespace graft::ops {

class WindowCompressor {
 public:
  WindowCompressor(const CompressorParams& params, const BuildContext& context);

  void load(WeightProvider& weights) { core_->load(weights); }
  void unload() { core_->unload(); }
  // Adds the tokens x[t, hidden] to both caches.
  void forward(const Activation& x, Pass& pass);

 private:
  CompressorParams params_;
  Primitives& primitives_;
  Child<Linear> kv_proj_;
  Child<Linear> gate_proj_;
  std::unique_ptr<CompressorCore> core_;
};

}  // namespace graft::ops
