// Shared by the kernels of expanded latent attention.

#pragma once

#include "graft/kernels/cuda/mla/mla.h"

namespace graft::kernels::cuda {

// mla_expand_f32.cu: expand_latents() of ExpandedLatents in F32.
void expand_latents_f32(const MlaShape& shape,
                        const MlaWeights& weights,
                        const ExpandedLatents& expanded,
                        Stream stream);

}  // namespace graft::kernels::cuda
