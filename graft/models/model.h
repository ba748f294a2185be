// A model that can run: the operators of a plan with their weights in place, and the shared
// forward.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "graft/base/parallel.h"
#include "graft/models/checkpoint.h"
#include "graft/models/decode_graphs.h"
#include "graft/models/decoder.h"
#include "graft/models/operators.h"
#include "graft/ops/device_context.h"
#include "graft/ops/pass.h"
#include "graft/ops/profiler.h"
#include "graft/plan/plan.h"

namespace graft::models {

struct LoadOptions {
  bool repack = true;  // rearrange weights for speed; without, they stay where they are mapped
  bool repack_cache = false;  // keep the rearranged ones in a file beside the checkpoint
  // Bytes of weights so far and in all, on the thread that loads.
  std::function<void(std::uint64_t done, std::uint64_t total)> on_progress = {};
  // What is wrong with that file, a line each.
  std::function<void(const std::string& line)> on_warning = {};
};

class Model {
 public:
  // Builds every operator and loads its weights. The first three must outlive the model: weights
  // that are not rearranged stay where they are mapped. Throws Error when a weight is missing or
  // does not fit.
  Model(const plan::Plan& plan,
        const Checkpoint& checkpoint,
        ThreadPool& pool,
        LoadOptions options = {});
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;
  ~Model();

  // The cache must have been allocated; blocks and positions are the caller's business. One call at
  // a time.
  void forward(const ops::Batch& batch,
               ops::Phase phase,
               const PassOutput& out,
               const HiddenObserver& observer = {});

  // The largest k of a top-k output; 0: only all logits.
  std::int64_t max_top_k(ops::Phase phase);

  // (Re)creates the caches of all layers; what they held is lost. block_tokens 0: as the rules say.
  void allocate_cache(std::int64_t num_blocks, std::int64_t block_tokens = 0);
  std::int64_t num_blocks() const;
  std::int64_t block_tokens() const;
  std::size_t cache_bytes_per_block() const;  // of all layers together
  // The same for the layers whose cache is on each device.
  std::map<Device, std::size_t> cache_bytes_by_device() const;

  // One block of all layers, one after the other: out and in have cache_bytes_per_block().
  void copy_block(std::int64_t from, std::int64_t to);
  void save_block(std::int64_t block, std::span<std::byte> out) const;
  void load_block(std::int64_t block, std::span<const std::byte> in);
  // Returns the memory of the blocks to the system; their contents are lost.
  void release_blocks(std::int64_t first, std::int64_t count);
  std::string cache_form() const;  // of all layers; equal forms can exchange blocks

  std::int64_t num_layers() const { return blueprint_->num_layers; }
  std::int64_t vocab_size() const { return blueprint_->vocab_size; }
  std::int64_t hidden_size() const { return hidden_size_; }

  // Times every module from here on, without CUDA graphs: events cannot time the inside of a graph.
  void start_profiling();
  const ops::Profiler* profiler() const { return profiler_ ? &*profiler_ : nullptr; }

  // Runs passes of this size once, so that the workspaces of GPUs are allocated. Afterwards the
  // caches are empty and need allocate_cache() again.
  void warm_up(std::int64_t num_tokens, std::int64_t num_sequences);
  // Turns CUDA graphs off or on again.
  void enforce_eager(bool is_eager) { graphs_.enforce_eager(is_eager); }

  // Frees weights and caches. load() loads the weights again; the caches need allocate_cache().
  void unload();
  void load();

 private:
  const Decoder& decoder_of(ops::Phase phase) const {
    return phase == ops::Phase::Prefill ? prefill_ : decode_;
  }

  const plan::Blueprint* blueprint_;
  const Checkpoint* checkpoint_;
  ThreadPool* pool_;
  LoadOptions options_;
  std::uint64_t weight_bytes_ = 0;
  OperatorTree operators_;
  Decoder prefill_;
  Decoder decode_;
  std::vector<ops::KvCache*> caches_;  // one per layer
  std::vector<Device> cache_devices_;
  ops::PassDevices devices_;
  DecodeGraphCache graphs_;
  std::optional<ops::Profiler> profiler_;
  std::int64_t hidden_size_ = 0;
};

}  // namespace graft::models
