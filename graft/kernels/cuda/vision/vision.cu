#include "graft/kernels/cuda/vision/vision.h"

#include "graft/kernels/cuda/launch.cuh"

namespace graft::kernels::cuda {
namespace {

constexpr int kThreads = 256;

// Block: a row. It is read three times, from the cache after the first.
__global__ void layer_norm_kernel(
    ConstRows x, LayerNormWeights weights, Rows y, std::int64_t cols, float eps) {
  begin_kernel();
  const float* in = x.data + blockIdx.x * x.stride;
  float* out = y.data + blockIdx.x * y.stride;
  float sum = 0.0F;
  for (std::int64_t col = threadIdx.x; col < cols; col += kThreads)
    sum += in[col];
  const float mean = block_sum(sum) / static_cast<float>(cols);
  float squares = 0.0F;
  for (std::int64_t col = threadIdx.x; col < cols; col += kThreads) {
    const float centered = in[col] - mean;
    squares += centered * centered;
  }
  const float scale = 1.0F / sqrtf(block_sum(squares) / static_cast<float>(cols) + eps);
  for (std::int64_t col = threadIdx.x; col < cols; col += kThreads)
    out[col] = (in[col] - mean) * scale * weights.weight[col] + weights.bias[col];
}

__device__ float activated(float x, VisionActivation activation) {
  constexpr float kInverseSqrt2 = 0.70710678F;
  constexpr float kSqrt2OverPi = 0.79788456F;
  switch (activation) {
    case VisionActivation::QuickGelu:
      return x / (1.0F + expf(-1.702F * x));
    case VisionActivation::Gelu:
      return 0.5F * x * (1.0F + erff(x * kInverseSqrt2));
    case VisionActivation::GeluTanh:
      return 0.5F * x * (1.0F + tanhf(kSqrt2OverPi * (x + 0.044715F * x * x * x)));
  }
  return x;
}

// Grid: (rows, column blocks), a value per thread.
__global__ void activate_kernel(Rows x, VisionActivation activation, std::int64_t cols) {
  begin_kernel();
  const std::int64_t col = static_cast<std::int64_t>(blockIdx.y) * kThreads + threadIdx.x;
  if (col >= cols) return;
  float& value = x.data[blockIdx.x * x.stride + col];
  value = activated(value, activation);
}

}  // namespace

void layer_norm(ConstRows x,
                const LayerNormWeights& weights,
                Rows y,
                std::int64_t rows,
                std::int64_t cols,
                float eps,
                Stream stream) {
  launch("layer_norm", layer_norm_kernel, {static_cast<unsigned>(rows), kThreads}, stream, x,
         weights, y, cols, eps);
}

void vision_activate(
    Rows x, VisionActivation activation, std::int64_t rows, std::int64_t cols, Stream stream) {
  launch("vision_activate", activate_kernel,
         {{static_cast<unsigned>(rows), blocks_for(cols, kThreads)}, kThreads}, stream, x,
         activation, cols);
}

}  // namespace graft::kernels::cuda
