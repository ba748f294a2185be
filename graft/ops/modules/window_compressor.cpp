#include "graft/ops/modules/window_compressor.h"

#include <array>
#include <cstdint>

namespace graft::ops {

WindowCompressor::WindowCompressor(const CompressorParams& params, const BuildContext& context)
    : params_(params),
      primitives_(*context.primitives),
      kv_proj_(context.child_as<Linear>("kv_proj")),
      gate_proj_(context.child_as<Linear>("gate_proj")),
      core_(primitives_.make_compressor(params, context)) {}

void WindowCompressor::forward(const Activation& x, Pass& pass) {
  const Workspace::Scope scope(pass.workspace);
  const std::int64_t rows = x.rows();
  const TensorView projection = pass.workspace.f32({rows, params_.row_size()});
  const TensorView logits = pass.workspace.f32({rows, params_.row_size()});
  const std::array projections = {LinearCall{kv_proj_, projection}, LinearCall{gate_proj_, logits}};
  primitives_.linear_group(x, projections, pass);
  core_->store(projection, logits, pass);
  core_->compress(pass);
}

}  // namespace graft::ops
