// One layer of a decoder: norm, attention, add, norm, feed-forward block, add.

#pragma once

#include <string>

#include "graft/ops/operator.h"

namespace graft::ops {

// The hidden states of a pass: x, or x + residual while has_pending_add. A layer leaves its last
// add pending, so that the next norm can do it in the same kernel.
struct Hidden {
  TensorView x;         // [t, hidden]
  TensorView residual;  // [t, hidden]
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

  // Replaces the hidden states with the layer's output. `caller` may be a pass of any device.
  void forward(Hidden& hidden, const Pass& caller) const;
};

}  // namespace graft::ops
