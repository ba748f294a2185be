#include "graft/ops/primitives.h"

#include <array>

#include "graft/base/check.h"

namespace graft::ops {
namespace {

bool fills_rows(const HeadSpan& span) {
  return span.offset == 0 && span.head_stride == span.size &&
         span.num_heads * span.size == span.x.cols();
}

// Norm::forward() needs contiguous rows of one head each: heads that fill the rows of x are viewed
// that way; a single head that does not is copied to a scratch tensor and back.
void norm_heads(Primitives& device, const HeadSpan& span, Pass& pass) {
  const std::int64_t rows = span.x.rows();
  if (fills_rows(span)) {
    const TensorView heads(span.x.data, DType::F32, {rows * span.num_heads, span.size},
                           span.x.device);
    return span.norm->forward(heads, heads, pass);
  }
  GRAFT_CHECK(span.num_heads == 1 && span.offset == 0, "head norm of ", span.num_heads,
              " heads at column ", span.offset, ": only one head at column 0 is supported");
  const Workspace::Scope scope(pass.workspace);
  const TensorView head = pass.workspace.f32({rows, span.size});
  device.copy_columns(span.x, head, pass);
  span.norm->forward(head, head, pass);
  device.copy_columns(head, span.x, pass);
}

}  // namespace

void AttentionCore::forward_selected(TensorView /*q*/,
                                     TensorView /*selected*/,
                                     TensorView /*out*/,
                                     Pass& /*pass*/) {
  GRAFT_CHECK(false, "this attention cannot attend to selected positions");
}

std::unique_ptr<AttentionCore> Primitives::make_compressed_attention(const BuildContext& context) {
  GRAFT_CHECK(false, context.module, ": this device has no compressed attention");
  return nullptr;
}

std::unique_ptr<CompressorCore> Primitives::make_compressor(const CompressorParams& /*params*/,
                                                            const BuildContext& context) {
  GRAFT_CHECK(false, context.module, ": this device has no compressor");
  return nullptr;
}

void Primitives::limited_silu_mul(TensorView /*gate*/,
                                  TensorView /*up*/,
                                  float /*limit*/,
                                  Pass& /*pass*/) {
  GRAFT_CHECK(false, "this device has no limited SiLU");
}

void Primitives::linear_group(const Activation& x, std::span<const LinearCall> calls, Pass& pass) {
  for (const LinearCall& call : calls)
    call.linear->apply(x, call.y, pass);
}

Activation Primitives::gate_up(const Activation& x,
                               const LinearCall& gate,
                               const LinearCall& up,
                               MlpParams::Gate function,
                               ActivationFormat /*wanted*/,
                               Pass& pass) {
  const std::array calls = {gate, up};
  linear_group(x, calls, pass);
  if (function == MlpParams::Gate::GeluTanh) {
    gelu_mul(gate.y, up.y, pass);
  } else {
    silu_mul(gate.y, up.y, pass);
  }
  return gate.y;
}

void Primitives::norm_rope_store(const HeadStore& heads, Pass& pass) {
  for (const HeadSpan& span : heads.spans) {
    if (span.norm) norm_heads(*this, span, pass);
    if (span.rotates && heads.rope) {
      heads.rope->forward(span.x,
                          {.num_heads = span.num_heads,
                           .head_dim = span.head_stride,
                           .offset = span.offset + span.rotate_from},
                          pass);
    }
  }
  heads.cache->write(heads.key, heads.value, pass);
}

}  // namespace graft::ops
