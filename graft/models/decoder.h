// The forward pass of every family: embedding, layers, final norm, head. Families differ inside the
// operators.

#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <optional>
#include <string>
#include <vector>

#include "graft/base/parallel.h"
#include "graft/models/build/operators.h"
#include "graft/models/weights/layer_read_ahead.h"
#include "graft/ops/devices/device_context.h"
#include "graft/ops/modules/decoder_layer.h"
#include "graft/ops/operator.h"
#include "graft/plan/plan.h"

namespace graft::models {

// Called with the hidden states [t, hidden] (hyper-connections: [t, streams * hidden]): index 0
// after the embedding, i after layer i, the last one, [t, hidden], after the final norm too.
struct HiddenObserver {
  std::function<void(std::int64_t index, TensorView hidden)> see = {};
  bool is_last_only = false;  // only the last index, without the cost of the others

  explicit operator bool() const { return see != nullptr; }
};

// The result of a pass for each row of its batch's logit_rows: all logits on the host, or a token
// that the device of the head samples as the batch says (DeviceContext::finish_tokens_out), or
// later: the device keeps the logits (DeviceContext::sample_kept).
struct PassOutput {
  TensorView logits = {};  // [rows, vocab] f32 in host memory; unused when tokens are sampled
  bool is_sampled = false;
  bool is_kept = false;
};

// The forward pass of one phase. Does not own its operators.
class Decoder {
 public:
  Decoder(const plan::Plan& plan, OperatorTree& operators, ops::Phase phase);

  // Called before every layer; `reader` must outlive the decoder.
  void read_ahead_with(const LayerReadAhead* reader) { reader_ = reader; }

  // `pass` is a CPU pass. Returns when the logits are on the host; with sampled tokens, when the
  // work of the pass is started.
  void forward(const PassOutput& out, const HiddenObserver& observer, ops::Pass& pass) const;

  // The steps of forward(), for capture (decode_graphs.h).
  void begin_pass(ops::Pass& pass) const;
  TensorView allocate_staged(const PassOutput& out, ops::Pass& pass) const;
  TensorView embed(ops::Pass& pass) const;
  // Returns the rows batch.logit_rows of the hidden states after the final norm.
  TensorView run_layers(ops::Hidden& hidden, const HiddenObserver& observer, ops::Pass& pass) const;
  // Runs the head on the rows x. A head on the CPU writes to `out`; otherwise tokens are sampled,
  // or their logits are kept, or an asynchronous copy of the logits to `staged` starts.
  void start_output(TensorView x, const PassOutput& out, TensorView staged, ops::Pass& pass) const;
  // Outside of a capture: waits for the logits, or starts the copy of num_tokens tokens.
  void finish_output(const PassOutput& out,
                     TensorView staged,
                     std::int64_t num_tokens,
                     ops::Pass& pass) const;

  // Whether everything after the embedding runs on one device, except experts on the CPU.
  bool can_be_captured() const { return can_be_captured_; }
  bool is_hybrid() const { return is_hybrid_; }  // CPU modules run between GPU modules
  // Whether all modules, the embedding included, are on one device other than the CPU: passes need
  // nothing from the host but their batch.
  bool is_on_one_device() const { return is_on_one_device_; }
  Device first_device() const { return first_device_; }
  Device head_device() const { return head_device_; }
  const std::vector<Device>& devices() const { return devices_; }
  // Of the attention in models whose layers share indexers; else empty.
  const std::vector<Device>& selection_devices() const { return selection_devices_; }

 private:
  bool has_cpu_modules(const plan::Plan& plan,
                       const OperatorTree& operators,
                       ops::Phase phase) const;
  bool can_be_captured(const plan::Plan& plan,
                       const OperatorTree& operators,
                       ops::Phase phase) const;
  void find_shared_indexers(const plan::Plan& plan,
                            const OperatorTree& operators,
                            ops::Phase phase);
  void forward_layers(ops::Hidden& hidden, const HiddenObserver& observer, ops::Pass& pass) const;
  TensorView final_rows(TensorView x, const HiddenObserver& observer, ops::Pass& pass) const;

  const LayerReadAhead* reader_ = nullptr;
  std::int64_t hidden_size_ = 0;
  std::int64_t vocab_size_ = 0;
  bool can_be_captured_ = false;
  bool is_hybrid_ = false;
  bool is_on_one_device_ = false;
  std::vector<Device> devices_;  // of the hidden states, and the host; no duplicates
  Device first_device_;          // of the hidden states after the embedding
  ops::Embedding* embed_tokens_ = nullptr;
  std::vector<ops::DecoderLayer> layers_;
  ops::HyperConnection* hc_head_ = nullptr;  // null: the hidden states are one stream
  ops::Norm* norm_ = nullptr;
  ops::Linear* lm_head_ = nullptr;
  Device norm_device_;
  Device head_device_;
  std::vector<ops::Experts*> experts_;  // on GPUs, with weights in host memory
  std::int64_t index_top_k_ = 0;        // of shared indexers; 0: none are shared
  std::vector<Device> selection_devices_;
};

// Until the end of a pass: frees its workspace allocations, and keeps the threads of a hybrid pass
// spinning.
class DecoderScope {
 public:
  DecoderScope(const Decoder& decoder, ops::Pass& pass);

 private:
  std::list<ops::Workspace::Scope> scopes_;
  std::optional<ThreadPool::SpinScope> spin_;
};

}  // namespace graft::models
