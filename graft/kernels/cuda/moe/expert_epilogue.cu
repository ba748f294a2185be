#include "graft/kernels/cuda/moe/expert_epilogue.h"

#include "graft/kernels/cuda/launch.cuh"
#include "graft/kernels/cuda/silu.cuh"

namespace graft::kernels::cuda {
namespace {

constexpr int kThreads = 256;

// The expert of the block's pair; -1: none.
__device__ std::int64_t expert_of(const PairExperts& experts) {
  const std::int32_t id = experts.ids[blockIdx.x];
  return id >= experts.first && id < experts.end ? id : -1;
}

// Grid: (pairs, column blocks), one thread per column.
__global__ void __launch_bounds__(kThreads) activate_pairs_kernel(ExpertEpilogue epilogue,
                                                                  PairExperts experts,
                                                                  ConstRows gate,
                                                                  ConstRows up,
                                                                  Rows y,
                                                                  std::int64_t intermediate) {
  begin_kernel();
  const std::int64_t pair = blockIdx.x;
  const std::int64_t expert = expert_of(experts);
  const std::int64_t col = static_cast<std::int64_t>(blockIdx.y) * kThreads + threadIdx.x;
  if (expert < 0 || col >= intermediate) return;
  float g = gate.data[pair * gate.stride + col];
  float u = up.data[pair * up.stride + col];
  if (epilogue.gate_bias != nullptr) {
    g = __fadd_rn(g, epilogue.gate_bias[expert * intermediate + col]);
    u = __fadd_rn(u, epilogue.up_bias[expert * intermediate + col]);
  }
  y.data[pair * y.stride + col] = swiglu(g, u, epilogue.swiglu_limit, epilogue.limits_silu);
}

// Grid: (pairs, column blocks), one thread per column.
__global__ void __launch_bounds__(kThreads) add_down_bias_kernel(const float* bias,
                                                                 PairExperts experts,
                                                                 Rows results,
                                                                 std::int64_t hidden) {
  begin_kernel();
  const std::int64_t expert = expert_of(experts);
  const std::int64_t col = static_cast<std::int64_t>(blockIdx.y) * kThreads + threadIdx.x;
  if (expert < 0 || col >= hidden) return;
  float& value = results.data[static_cast<std::int64_t>(blockIdx.x) * results.stride + col];
  value = __fadd_rn(value, bias[expert * hidden + col]);
}

dim3 grid_of(const PairExperts& experts, std::int64_t cols) {
  return dim3(static_cast<unsigned>(experts.pairs), blocks_for(cols, kThreads));
}

}  // namespace

void activate_pairs(const ExpertEpilogue& epilogue,
                    const PairExperts& experts,
                    ConstRows gate,
                    ConstRows up,
                    Rows y,
                    std::int64_t intermediate,
                    Stream stream) {
  launch("activate_pairs", activate_pairs_kernel, {grid_of(experts, intermediate), kThreads},
         stream, epilogue, experts, gate, up, y, intermediate);
}

void add_down_bias(const ExpertEpilogue& epilogue,
                   const PairExperts& experts,
                   Rows results,
                   std::int64_t hidden,
                   Stream stream) {
  if (epilogue.down_bias == nullptr) return;
  launch("add_down_bias", add_down_bias_kernel, {grid_of(experts, hidden), kThreads}, stream,
         epilogue.down_bias, experts, results, hidden);
}

}  // namespace graft::kernels::cuda
