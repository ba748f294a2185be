// One layer of a decoder: norm, attention, add, norm, feed-forward block, add. With
// hyper-connections, the hidden states are several streams, which each block reads and writes
// through its connection instead of the add.

#pragma once

#include <string>

#include "graft/ops/operator.h"

namespace graft::ops {

// The hidden states of a pass: x, or x + residual while has_pending_add. A layer leaves its last
// add pending, so that the next norm can do it in the same kernel.
struct Hidden {
  TensorView x;         // [t, hidden], or [t, streams * hidden]
  TensorView residual;  // of the same shape
  bool has_pending_add = false;
};

// Operators are not owned; their inputs and outputs are on `device`.
struct DecoderLayer {
  std::string name;
  Device device;
  Norm* input_layernorm = nullptr;
  Attention* self_attn = nullptr;
  Norm* post_self_attn_layernorm = nullptr;  // of the attention's output; null: none
  Norm* post_attention_layernorm = nullptr;
  Mlp* mlp = nullptr;
  Norm* post_mlp_layernorm = nullptr;  // of the feed-forward block's output; null: none
  HyperConnection* attn_hc = nullptr;  // null: one stream
  HyperConnection* ffn_hc = nullptr;

  // Replaces the hidden states with the layer's output. `caller` may be a pass of any device.
  void forward(Hidden& hidden, const Pass& caller) const;

 private:
  void forward_streams(TensorView streams, Pass& pass) const;
};

}  // namespace graft::ops
