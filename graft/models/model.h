// A runnable model: the operators of a plan with their loaded weights, the KV caches and the
// forward pass.

#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "graft/base/parallel.h"
#include "graft/models/block_transfer.h"
#include "graft/models/build/operators.h"
#include "graft/models/decode_graphs.h"
#include "graft/models/decoder.h"
#include "graft/models/expert_stats.h"
#include "graft/models/lora/adapter.h"
#include "graft/models/lora/lora_layers.h"
#include "graft/models/vision_encoder.h"
#include "graft/models/weights/checkpoint.h"
#include "graft/models/weights/layer_read_ahead.h"
#include "graft/ops/devices/device_context.h"
#include "graft/ops/experts/deferred_experts.h"
#include "graft/ops/pass.h"
#include "graft/ops/profiler.h"
#include "graft/plan/plan.h"

namespace graft::models {

struct LoadOptions {
  bool repack = true;             // pack weights for the CPU kernels; false: use the mapped file
  bool repack_cache = false;      // store packed weights in a file beside the checkpoint
  ExpertStats expert_stats = {};  // of earlier runs: their most used experts start in GPU memory
  // The packed weights do not fit into memory: keep them in that file. Requires repack_cache.
  bool from_disk = false;
  packing::ReadAhead read_ahead = packing::system_read_ahead();
  // Called on the loading thread with the bytes loaded so far and the total.
  std::function<void(std::uint64_t done, std::uint64_t total)> on_progress = {};
  // Called once per problem that costs speed: with the file of packed weights, with memory.
  std::function<void(const std::string& line)> on_warning = {};
};

class Model {
 public:
  // Builds every operator and loads its weights. Plan, checkpoint and pool must outlive the model:
  // weights that are not packed stay in the mapped files. Throws Error when a weight is missing or
  // has the wrong shape.
  Model(const plan::Plan& plan,
        const Checkpoint& checkpoint,
        ThreadPool& pool,
        LoadOptions options = {});
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;
  ~Model();

  // Requires allocate_cache(). The caller assigns blocks and positions, which are not checked.
  // logits: [rows of batch.logit_rows, vocab] f32 in host memory. Not thread-safe.
  void forward(const ops::Batch& batch,
               ops::Phase phase,
               TensorView logits,
               const HiddenObserver& observer = {});

  // Whether the device of the head samples tokens.
  bool can_sample(ops::Phase phase);
  // Whether decode passes with one token per sequence can run as graphs.
  bool has_decode_graphs() const { return decode_.can_be_captured(); }
  // Whether a pass can be started before the tokens of the one before are on the host: devices need
  // nothing from the host but the batch, which may refer to them.
  bool can_run_ahead();
  // Starts a pass whose tokens are sampled by batch.sampling. At most two may be unfinished.
  void start(const ops::Batch& batch, ops::Phase phase);
  // The same for a pass whose tokens are sampled by a later sample(), before the next pass. In
  // between finish() may return the tokens of the pass before. Requires can_run_ahead().
  void start_unsampled(const ops::Batch& batch, ops::Phase phase);
  void sample(const ops::BatchSampling& sampling);
  // Waits for the oldest started pass: a token per entry of its logit_rows; -1: sampling failed.
  // Valid until the next but one start().
  std::span<const std::int32_t> finish();
  // After a failure: drops the started passes.
  void discard_started();

  // Allocates the KV caches of all layers and discards earlier ones. block_tokens 0: the value of
  // the rules.
  void allocate_cache(std::int64_t num_blocks, std::int64_t block_tokens = 0);
  std::int64_t num_blocks() const;
  std::int64_t block_tokens() const;
  std::size_t cache_bytes_per_block() const;  // over all layers
  // Bytes per block by the device of the cache.
  std::map<Device, std::size_t> cache_bytes_by_device() const;

  // One block of every layer, in layer order; `out` and `in` have cache_bytes_per_block() bytes.
  void copy_block(std::int64_t from, std::int64_t to);
  void save_block(std::int64_t block, std::span<std::byte> out) const;
  void load_block(std::int64_t block, std::span<const std::byte> in);
  // The same of several blocks, beside the passes where the devices can. Valid until the caches are
  // allocated again; takes memory on the devices when it is first called.
  BlockTransfer& block_transfer();
  // Returns the memory of the blocks to the system; their contents are lost.
  void release_blocks(std::int64_t first, std::int64_t count);
  // The layout of all layers, and what else their contents depend on: blocks are portable between
  // equal forms.
  std::string cache_form() const;

  // Recurrent states: one slot per sequence in every layer that has them. Slots are copied in order
  // with the passes.
  bool has_states() const { return !states_.empty(); }
  void allocate_states(std::int64_t num_slots);
  std::int64_t num_state_slots() const;                         // 0: no states
  std::size_t state_bytes_per_slot() const;                     // over all layers
  std::map<Device, std::size_t> state_bytes_by_device() const;  // of one slot
  // One slot of every layer, in layer order; `out` and `in` have state_bytes_per_slot() bytes.
  void copy_state(std::int64_t from, std::int64_t to);
  void save_state(std::int64_t slot, std::span<std::byte> out) const;
  void load_state(std::int64_t slot, std::span<const std::byte> in);
  void release_states(std::int64_t first, std::int64_t count);

  // Images: null without a vision tower.
  const ops::VisionTowerParams* vision_tower() const {
    return vision_ ? &vision_->tower() : nullptr;
  }
  // The embeddings of an image, [num_image_tokens, hidden_size]. Not during a pass.
  std::vector<float> encode_image(const vision::PreparedImage& image);

  std::int64_t num_layers() const { return blueprint_->num_layers; }
  std::int64_t vocab_size() const { return blueprint_->vocab_size; }
  std::int64_t long_rope_from() const { return blueprint_->long_rope_from; }
  std::int64_t hidden_size() const { return hidden_size_; }

  // The adapter of sequences with SequenceSlice::adapter `index`, less than ops::kMaxAdapters.
  // Between passes, none of which may be unfinished. set_adapter() throws Error when the model's
  // operators do not support it.
  void set_adapter(std::int32_t index, const Adapter& adapter);
  void clear_adapter(std::int32_t index);
  const std::map<Device, std::uint64_t>& adapter_bytes() const { return lora_.bytes(); }

  // Times every module from now on and disables CUDA graphs: events cannot time modules in a graph.
  void start_profiling();
  const ops::Profiler* profiler() const { return profiler_ ? &*profiler_ : nullptr; }

  // Of the experts that a GPU computes with weights in host memory, by module.
  std::map<std::string, ops::ExpertUsage> expert_usage() const;

  // Runs passes of this size once, so that the GPU workspaces are allocated. Frees the KV caches:
  // call allocate_cache() afterwards.
  void warm_up(std::int64_t num_tokens, std::int64_t num_sequences);
  std::int64_t num_graph_replays() const { return graphs_.num_replays(); }
  // The largest workspace of a pass so far, by device; that of copies is host memory.
  std::map<Device, std::size_t> workspace_bytes() const { return devices_.workspace_bytes(); }
  // true: no CUDA graphs.
  void enforce_eager(bool is_eager) { graphs_.enforce_eager(is_eager); }

  // Frees weights and caches. load() loads the weights again; call allocate_cache() after it.
  void unload();
  void load();

 private:
  const Decoder& decoder_of(ops::Phase phase) const {
    return phase == ops::Phase::Prefill ? prefill_ : decode_;
  }
  void run(const ops::Batch& batch,
           ops::Phase phase,
           const PassOutput& out,
           const HiddenObserver& observer);
  void run_once(ops::Batch& batch, ops::Phase phase);

  const plan::Blueprint* blueprint_;
  const Checkpoint* checkpoint_;
  ThreadPool* pool_;
  LoadOptions options_;
  std::uint64_t weight_bytes_ = 0;
  OperatorTree operators_;
  LoraLayers lora_;
  Decoder prefill_;
  Decoder decode_;
  std::optional<VisionEncoder> vision_;
  LayerReadAhead reader_;
  struct LayerStates {
    ops::StateCache* cache;
    Device device;
  };
  void add_cache(const std::string& name);

  std::vector<ops::KvCache*> caches_;  // of attention and indexers, in order of the layers
  std::vector<LayerStates> states_;    // one per layer with a recurrent state
  std::map<std::string, ops::Experts*> hybrid_experts_;  // on GPUs, with weights in host memory
  std::vector<Device> cache_devices_;
  ops::PassDevices devices_;
  std::optional<BlockTransfer> block_transfer_;  // of the allocated caches
  std::int64_t num_deferred_;                    // experts of a token, in decode passes
  ops::DeferredExperts deferred_;
  DecodeGraphCache graphs_;
  std::optional<ops::Profiler> profiler_;
  std::int64_t hidden_size_ = 0;
  std::deque<Device> started_;  // the devices that sample for the unfinished passes, oldest first
};

}  // namespace graft::models
