#include "graft/kernels/cuda/row_scales.h"

#include "graft/kernels/cuda/launch.cuh"

namespace graft::kernels::cuda {
namespace {

constexpr int kScaleThreads = 256;

// Block: a row. Only this block reads the row's factor.
__global__ void apply_factors_kernel(ConstRows x, float* factors, Rows y, std::int64_t cols) {
  begin_kernel();
  const std::int64_t row = blockIdx.x;
  const float factor = factors[row];
  for (std::int64_t i = threadIdx.x; i < cols; i += blockDim.x)
    y.data[row * y.stride + i] = factor * x.data[row * x.stride + i];
  __syncthreads();  // every thread has read the factor
  if (threadIdx.x == 0) factors[row] = 1.0F;
}

__global__ void scale_by_position_kernel(Rows y,
                                         const std::int32_t* positions,
                                         Temperature temperature,
                                         std::int64_t cols) {
  begin_kernel();
  const std::int64_t row = blockIdx.x;
  const auto steps = static_cast<float>((positions[row] + 1) / temperature.floor);
  const float factor = log1pf(steps) * temperature.scale + 1.0F;
  for (std::int64_t i = threadIdx.x; i < cols; i += blockDim.x)
    y.data[row * y.stride + i] *= factor;
}

}  // namespace

void apply_factors(
    ConstRows x, float* factors, Rows y, std::int64_t rows, std::int64_t cols, Stream stream) {
  launch("apply_factors", apply_factors_kernel, {static_cast<unsigned>(rows), kScaleThreads},
         stream, x, factors, y, cols);
}

void scale_by_position(Rows y,
                       const std::int32_t* positions,
                       const Temperature& temperature,
                       std::int64_t rows,
                       std::int64_t cols,
                       Stream stream) {
  launch("scale_by_position", scale_by_position_kernel,
         {static_cast<unsigned>(rows), kScaleThreads}, stream, y, positions, temperature, cols);
}

}  // namespace graft::kernels::cuda
