// Thread blocks of a cluster (sm_90), for kernels that also run as one block. kCluster 1: no
// cluster.

#pragma once

#include <cooperative_groups.h>

namespace graft::kernels::cuda {

template <int kCluster>
__device__ inline unsigned block_rank() {
  if constexpr (kCluster == 1) return 0;
#if __CUDA_ARCH__ >= 900
  return cooperative_groups::this_cluster().block_rank();
#else
  return 0;
#endif
}

template <int kCluster>
__device__ inline void sync_cluster() {
  if constexpr (kCluster == 1) return __syncthreads();
#if __CUDA_ARCH__ >= 900
  cooperative_groups::this_cluster().sync();
#endif
}

// The same variable of another thread block of the cluster.
template <int kCluster, class T>
__device__ inline T remote(T& variable, int rank) {
  if constexpr (kCluster == 1) return variable;
#if __CUDA_ARCH__ >= 900
  return *cooperative_groups::this_cluster().map_shared_rank(&variable, rank);
#else
  return variable;
#endif
}

}  // namespace graft::kernels::cuda
