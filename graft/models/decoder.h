// The forward pass every family shares: embedding, layers of attention and MLP, head. What differs
// between families is inside the operators.

#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "graft/models/operators.h"
#include "graft/ops/operator.h"
#include "graft/plan/plan.h"

namespace graft::models {

// Sees hidden states [t, hidden] as they pass: 0 after the embedding, i after layer i, the last one
// after the final norm as well.
using HiddenObserver = std::function<void(std::int64_t index, TensorView hidden)>;

struct DecoderLayer {
  std::string name;
  Device device;  // where the hidden states must be; the operators below are seen from there
  ops::Norm* input_layernorm = nullptr;
  ops::Attention* self_attn = nullptr;
  ops::Norm* post_attention_layernorm = nullptr;
  ops::Mlp* mlp = nullptr;

  // x[t, hidden] becomes the layer's output.
  void forward(TensorView x, ops::Pass& caller) const;
};

// The operators of one phase, none of them owned.
class Decoder {
 public:
  Decoder(const plan::Plan& plan, OperatorTree& operators, ops::Phase phase);

  // logits[logit_rows, vocab], in memory of the processor. The pass is the processor's too.
  void forward(TensorView logits, const HiddenObserver& observer, ops::Pass& pass) const;

 private:
  // The rows whose logits are wanted, after the final norm.
  TensorView final_rows(TensorView x, const HiddenObserver& observer, ops::Pass& pass) const;

  void write_logits(TensorView x, TensorView logits, ops::Pass& pass) const;

  std::int64_t hidden_size_ = 0;
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
