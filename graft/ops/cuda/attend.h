// Attention of a pass over the cache of a layer.

#pragma once

#include "graft/kernels/cuda/attention/attention.h"
#include "graft/ops/cuda/cuda_context.h"
#include "graft/ops/cuda/kv_cache.h"

namespace graft::ops::cuda {

// out[t, heads * value_dim] for queries[t, heads * key_dim], with scratch memory of the pass.
void attend(const kernels::cuda::AttentionShape& shape,
            const KvCacheCuda& cache,
            TensorView queries,
            TensorView out,
            CudaContext& gpu,
            Workspace& workspace);

// The cache that stands beside an attention; throws Error when it is another kind of operator.
KvCacheCuda& cache_of(const BuildContext& context);

}  // namespace graft::ops::cuda
