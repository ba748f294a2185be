#include "graft/ops/modules/decoder_layer.h"

#include "graft/ops/devices/device_context.h"
#include "graft/ops/profiler.h"

namespace graft::ops {

void DecoderLayer::forward(Hidden& hidden, const Pass& caller) const {
  Pass pass = on(device, caller);
  const ProfileScope profile(pass, device, name);
  const Workspace::Scope scope(pass.workspace);
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

}  // namespace graft::ops
