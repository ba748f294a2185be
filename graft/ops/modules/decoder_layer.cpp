#include "graft/ops/modules/decoder_layer.h"

#include <cstdint>

#include "graft/ops/devices/device_context.h"
#include "graft/ops/profiler.h"

namespace graft::ops {
void DecoderLayer::forward(Hidden& hidden, const Pass& caller) const {
  Pass pass = on(device, caller);
  const ProfileScope profile(pass, device, name);
  const Workspace::Scope scope(pass.workspace);
  if (attn_hc != nullptr) return forward_streams(hidden.x, pass);
  const TensorView x = hidden.x;
  const TensorView y = hidden.residual;
  const TensorView h = pass.workspace.f32({x.rows(), x.cols()});

  Activation input = h;
  if (hidden.has_pending_add) {
    input = input_layernorm->forward_add(x, y, h, self_attn->input_format(x.rows()), pass);
  } else {
    input_layernorm->forward(x, h, pass);
  }
  self_attn->forward(input, y, pass);
  if (post_self_attn_layernorm != nullptr) post_self_attn_layernorm->forward(y, y, pass);

  input = post_attention_layernorm->forward_add(x, y, h, mlp->input_format(x.rows()), pass);
  mlp->forward(input, y, pass);
  if (post_mlp_layernorm != nullptr) post_mlp_layernorm->forward(y, y, pass);
  hidden.has_pending_add = true;
}

void DecoderLayer::forward_streams(TensorView streams, Pass& pass) const {
  const std::int64_t rows = streams.rows();
  const std::int64_t mult = attn_hc->mult();
  const TensorView h = pass.workspace.f32({rows, streams.cols() / mult});
  const TensorView y = pass.workspace.f32({rows, h.cols()});
  const TensorView mix = pass.workspace.f32({rows, mult + mult * mult});

  attn_hc->collapse(streams, h, mix, pass);
  input_layernorm->forward(h, h, pass);
  self_attn->forward(h, y, pass);
  attn_hc->add(y, mix, streams, pass);

  ffn_hc->collapse(streams, h, mix, pass);
  post_attention_layernorm->forward(h, h, pass);
  mlp->forward(h, y, pass);
  ffn_hc->add(y, mix, streams, pass);
}

}  // namespace graft::ops
