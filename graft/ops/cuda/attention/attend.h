// Attention over a layer's KV cache on a GPU.

#pragma once

#include "graft/kernels/cuda/attention/attention.h"
#include "graft/ops/cuda/attention/kv_cache.h"
#include "graft/ops/cuda/runtime/cuda_context.h"

namespace graft::ops::cuda {

// out[t, heads * value_dim] for queries[t, heads * key_dim]; scratch is from the pass's workspace.
void attend(const kernels::cuda::AttentionShape& shape,
            const KvCacheCuda& cache,
            TensorView queries,
            TensorView out,
            CudaContext& gpu,
            Workspace& workspace);

// attend() for some of the sequences; row 0 of queries and out is batch.base_row.
void attend(const kernels::cuda::AttentionShape& shape,
            const kernels::cuda::AttentionBatch& batch,
            const KvCacheCuda& cache,
            TensorView queries,
            TensorView out,
            CudaContext& gpu,
            Workspace& workspace);

// attend() over rows that are not in the KV cache.
void attend(const kernels::cuda::AttentionShape& shape,
            const kernels::cuda::AttentionBatch& batch,
            const kernels::cuda::CacheRows& cache,
            TensorView queries,
            TensorView out,
            CudaContext& gpu,
            Workspace& workspace);

// The attention's KV cache; throws Error when it is not a KvCacheCuda.
KvCacheCuda& cache_of(const BuildContext& context);

}  // namespace graft::ops::cuda
