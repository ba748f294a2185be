#include "graft/kernels/cuda/elementwise.h"

#include "graft/kernels/cuda/bits.cuh"

namespace graft::cuda {
namespace {

constexpr int kThreads = 256;

// function(row, col) for every value: a block takes part of one row.
template <class Function>
__global__ void for_each_value_kernel(Function function, std::int64_t cols) {
  const std::int64_t row = blockIdx.x;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.y) * blockDim.x;
  std::int64_t col = static_cast<std::int64_t>(blockIdx.y) * blockDim.x + threadIdx.x;
  for (; col < cols; col += step)
    function(row, col);
}

template <class Function>
void for_each_value(const char* name,
                    const Function& function,
                    std::int64_t rows,
                    std::int64_t cols,
                    Stream stream) {
  const std::int64_t threads = cols < kThreads ? ceil_div(cols, kWarp) * kWarp : kThreads;
  // Beyond 64 blocks of a row there is nothing to gain.
  const std::int64_t parts = ceil_div(cols, kThreads);
  const dim3 grid(static_cast<unsigned>(rows), static_cast<unsigned>(parts < 64 ? parts : 64));
  launch(name, for_each_value_kernel<Function>, {grid, static_cast<unsigned>(threads)}, stream,
         function, cols);
}

struct Add {
  ConstRows a;
  ConstRows b;
  Rows y;
  __device__ void operator()(std::int64_t row, std::int64_t col) const {
    y.data[row * y.stride + col] = a.data[row * a.stride + col] + b.data[row * b.stride + col];
  }
};

__device__ float sigmoid(float x) {
  return 1.0F / (1.0F + expf(-x));
}

struct SiluMul {
  ConstRows gate;
  ConstRows up;
  Rows y;
  __device__ void operator()(std::int64_t row, std::int64_t col) const {
    const float g = gate.data[row * gate.stride + col];
    y.data[row * y.stride + col] = g * sigmoid(g) * up.data[row * up.stride + col];
  }
};

struct AddGated {
  const float* gates;
  ConstRows x;
  Rows y;
  __device__ void operator()(std::int64_t row, std::int64_t col) const {
    float& sum = y.data[row * y.stride + col];
    sum = __fadd_rn(sum, __fmul_rn(sigmoid(gates[row]), x.data[row * x.stride + col]));
  }
};

struct Gather {
  ConstRows x;
  const std::int32_t* row_ids;
  Rows y;
  __device__ void operator()(std::int64_t row, std::int64_t col) const {
    y.data[row * y.stride + col] = x.data[row_ids[row] * x.stride + col];
  }
};

struct Copy {
  ConstRows x;
  Rows y;
  __device__ void operator()(std::int64_t row, std::int64_t col) const {
    y.data[row * y.stride + col] = x.data[row * x.stride + col];
  }
};

// A block per row. The order of the sum depends on the number of threads, which `cols` decides.
__global__ void rms_norm_kernel(
    ConstRows x, const float* weight, Rows y, std::int64_t cols, float eps) {
  const float* from = x.data + blockIdx.x * x.stride;
  float* to = y.data + blockIdx.x * y.stride;
  float squares = 0.0F;
  for (std::int64_t col = threadIdx.x; col < cols; col += blockDim.x)
    squares += from[col] * from[col];
  const float mean = block_sum(squares) / static_cast<float>(cols);
  const float inverse_rms = 1.0F / sqrtf(mean + eps);
  for (std::int64_t col = threadIdx.x; col < cols; col += blockDim.x)
    to[col] = from[col] * inverse_rms * weight[col];
}

// A block per row.
__global__ void scale_rows_kernel(Rows y,
                                  const float* scales,
                                  const float* bias,
                                  std::int64_t cols) {
  const float scale = scales[blockIdx.x];
  if (scale == 1.0F && bias == nullptr) return;
  float* row = y.data + blockIdx.x * y.stride;
  for (std::int64_t col = threadIdx.x; col < cols; col += blockDim.x)
    row[col] = __fadd_rn(__fmul_rn(row[col], scale), bias == nullptr ? 0.0F : bias[col]);
}

}  // namespace

void rms_norm(ConstRows x,
              const float* weight,
              Rows y,
              std::int64_t rows,
              std::int64_t cols,
              float eps,
              Stream stream) {
  // Four values a thread, in whole warps.
  const std::int64_t warps = ceil_div(cols, 4 * kWarp);
  const auto threads = static_cast<unsigned>((warps < 32 ? warps : 32) * kWarp);
  launch("rms_norm", rms_norm_kernel, {static_cast<unsigned>(rows), threads}, stream, x, weight, y,
         cols, eps);
}

void add(ConstRows a, ConstRows b, Rows y, std::int64_t rows, std::int64_t cols, Stream stream) {
  for_each_value("add", Add{a, b, y}, rows, cols, stream);
}

void silu_mul(
    ConstRows gate, ConstRows up, Rows y, std::int64_t rows, std::int64_t cols, Stream stream) {
  for_each_value("silu_mul", SiluMul{gate, up, y}, rows, cols, stream);
}

void add_gated(
    const float* gates, ConstRows x, Rows y, std::int64_t rows, std::int64_t cols, Stream stream) {
  for_each_value("add_gated", AddGated{gates, x, y}, rows, cols, stream);
}

void gather_rows(ConstRows x,
                 const std::int32_t* row_ids,
                 Rows y,
                 std::int64_t rows,
                 std::int64_t cols,
                 Stream stream) {
  for_each_value("gather_rows", Gather{x, row_ids, y}, rows, cols, stream);
}

void copy_columns(ConstRows x, Rows y, std::int64_t rows, std::int64_t cols, Stream stream) {
  for_each_value("copy_columns", Copy{x, y}, rows, cols, stream);
}

void scale_rows(Rows y,
                const float* scales,
                const float* bias,
                std::int64_t rows,
                std::int64_t cols,
                Stream stream) {
  launch("scale_rows", scale_rows_kernel, {static_cast<unsigned>(rows), kThreads}, stream, y,
         scales, bias, cols);
}

}  // namespace graft::cuda
