// The forward pass every family shares: embedding, layers of attention and MLP, head. What differs
// between families is inside the operators.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "graft/models/operators.h"
#include "graft/ops/device_state.h"
#include "graft/ops/operator.h"
#include "graft/plan/plan.h"

namespace graft::models {

// Sees hidden states [t, hidden] as they pass: 0 after the embedding, i after layer i, the last one
// after the final norm as well.
using HiddenObserver = std::function<void(std::int64_t index, TensorView hidden)>;

// What a pass gives for each row of its batch's logit_rows, in memory of the processor.
struct PassOutput {
  TensorView logits;  // [rows, vocab] f32: of all tokens; or the largest, [rows, count], of …
  TensorView tokens = {};  // … [rows, count] i32 these tokens, as DeviceState::find_top_k()

  bool has_top_k() const { return tokens.rank > 0; }
  std::int64_t num_top_k() const { return has_top_k() ? tokens.cols() : 0; }
  PassOutput first(std::int64_t num_rows) const;
};

// The hidden states of a pass: x, or x + more where a layer has left its last sum to whoever comes
// next, who can do it on the way.
struct Hidden {
  TensorView x;
  TensorView more;
  bool has_pending_add = false;
};

struct DecoderLayer {
  std::string name;
  Device device;  // where the hidden states must be; the operators below are seen from there
  ops::Norm* input_layernorm = nullptr;
  ops::Attention* self_attn = nullptr;
  ops::Norm* post_attention_layernorm = nullptr;
  ops::Mlp* mlp = nullptr;

  // The layer's output takes the place of its input.
  void forward(Hidden& hidden, ops::Pass& caller) const;
};

// The operators of one phase, none of them owned.
class Decoder {
 public:
  Decoder(const plan::Plan& plan, OperatorTree& operators, ops::Phase phase);

  // With fewer rows only the first ones are written. The pass is the processor's. Candidates are
  // for those whose head's device finds so many.
  void forward(const PassOutput& out, const HiddenObserver& observer, ops::Pass& pass) const;

  // Whether all but the embedding is on one device, or asked for by it: such passes can be recorded
  // where the device knows how.
  bool can_be_captured() const { return can_be_captured_; }
  Device first_device() const { return first_device_; }
  Device head_device() const { return head_device_; }
  // The same pass, all rows wanted. What happens after the embedding is recorded when `recording`
  // is null, and otherwise replayed: with another batch, but for its numbers the same.
  void run_captured(const PassOutput& out,
                    ops::Pass& pass,
                    std::unique_ptr<ops::CapturedGraph>& recording) const;

 private:
  bool has_cpu_modules(const plan::Plan& plan,
                       const OperatorTree& operators,
                       ops::Phase phase) const;
  bool can_be_captured(const plan::Plan& plan,
                       const OperatorTree& operators,
                       ops::Phase phase) const;
  TensorView embed(ops::Pass& pass) const;
  void run_layers(Hidden& hidden, const HiddenObserver& observer, ops::Pass& pass) const;
  // The rows whose logits are wanted, after the final norm.
  TensorView final_rows(TensorView x, const HiddenObserver& observer, ops::Pass& pass) const;
  // Of these rows: in `out` itself, or on its way to `staged`.
  void start_output(TensorView x,
                    const PassOutput& out,
                    const PassOutput& staged,
                    ops::Pass& pass) const;
  // Staging memory for that of all wanted rows; empty where the head is on the processor.
  PassOutput room_for(const PassOutput& out, ops::Pass& pass) const;

  std::int64_t hidden_size_ = 0;
  std::int64_t vocab_size_ = 0;
  bool can_be_captured_ = false;
  bool is_hybrid_ = false;       // the processor works between what a GPU does
  std::vector<Device> devices_;  // where hidden states come by, each once
  Device first_device_;          // after the embedding
  ops::Embedding* embed_tokens_ = nullptr;
  std::vector<DecoderLayer> layers_;
  ops::Norm* norm_ = nullptr;
  ops::Linear* lm_head_ = nullptr;
  Device norm_device_;
  Device head_device_;
};

}  // namespace graft::models
