#include "graft/kernels/cuda/elementwise.h"

#include "graft/kernels/cuda/formats/bits.cuh"
#include "graft/kernels/cuda/linear/panels/panel_rows.cuh"
#include "graft/kernels/cuda/linear/quantize.cuh"
#include "graft/kernels/cuda/rms_norm.cuh"
#include "graft/kernels/cuda/silu.cuh"

namespace graft::kernels::cuda {
namespace {

constexpr int kThreads = 256;

// Calls function(row, col) for every value. Grid: (rows, column blocks), one thread per column with
// a grid stride.
template <class Function>
__global__ void for_each_value_kernel(Function function, std::int64_t cols) {
  begin_kernel();
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
  const std::int64_t threads = cols < kThreads ? ceil_div(cols, kWarpSize) * kWarpSize : kThreads;
  // More than 64 blocks per row are not faster.
  const std::int64_t blocks = ceil_div(cols, kThreads);
  const dim3 grid(static_cast<unsigned>(rows), static_cast<unsigned>(blocks < 64 ? blocks : 64));
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

struct SiluMul {
  ConstRows gate;
  ConstRows up;
  Rows y;
  __device__ void operator()(std::int64_t row, std::int64_t col) const {
    y.data[row * y.stride + col] =
        swiglu(gate.data[row * gate.stride + col], up.data[row * up.stride + col]);
  }
};

struct LimitedSiluMul {
  ConstRows gate;
  ConstRows up;
  Rows y;
  float limit;
  __device__ void operator()(std::int64_t row, std::int64_t col) const {
    y.data[row * y.stride + col] =
        swiglu(gate.data[row * gate.stride + col], up.data[row * up.stride + col], limit, true);
  }
};

// gelu(gate) * up, not fused into FMAs, as swiglu().
// 0.5 x (1 + tanh(z)) = x sigmoid(2 z), z = sqrt(2 / pi) (x + 0.044715 x^3).
__device__ float geglu(float gate, float up) {
  const float cube = __fmul_rn(__fmul_rn(__fmul_rn(0.044715F, gate), gate), gate);
  const float twice_z = __fmul_rn(1.5957691216F, __fadd_rn(gate, cube));
  return __fmul_rn(__fmul_rn(gate, sigmoid(twice_z)), up);
}

struct GeluMul {
  ConstRows gate;
  ConstRows up;
  Rows y;
  __device__ void operator()(std::int64_t row, std::int64_t col) const {
    y.data[row * y.stride + col] =
        geglu(gate.data[row * gate.stride + col], up.data[row * up.stride + col]);
  }
};

struct Scale {
  Rows y;
  float factor;
  __device__ void operator()(std::int64_t row, std::int64_t col) const {
    y.data[row * y.stride + col] *= factor;
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

struct MulSigmoid {
  ConstRows gates;
  Rows y;
  __device__ void operator()(std::int64_t row, std::int64_t col) const {
    float& value = y.data[row * y.stride + col];
    value = __fmul_rn(value, sigmoid(gates.data[row * gates.stride + col]));
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

struct GatherColumns {
  ConstRows x;
  const std::int32_t* order;
  Rows y;
  __device__ void operator()(std::int64_t row, std::int64_t col) const {
    y.data[row * y.stride + col] = x.data[row * x.stride + order[col]];
  }
};

struct GatherPairColumns {
  PairColumns job;
  std::int64_t top_k;
  std::int64_t cols;
  __device__ void operator()(std::int64_t pair, std::int64_t col) const {
    const std::int64_t expert = job.expert_ids[pair];
    float* y = job.y.data + pair * job.y.stride;
    const float* x = job.x.data + pair / top_k * job.x.stride;
    y[col] = expert < 0 ? 0.0F : x[job.orders[expert * cols + col]];
  }
};

constexpr int kRegisterVectors = 4;  // float4 vectors per thread that stay in registers

struct NormJob {
  Rows sum;  // x + residual; used with kAdd only
  ConstRows x;
  ConstRows residual;
  const float* weight;
  Rows y;
  std::int64_t cols;
  float eps;
  bool vectors;          // all rows are aligned for float4 access
  Q8Rows q8;             // y quantized to int8; with NormOutput::Q8 only
  PanelRows panel_rows;  // y in F16; with NormOutput::PanelRows only
};

// What a norm writes beside y.
enum class NormOutput : std::uint8_t { None, Q8, PanelRows };

// The input of the norm: x, or with kAdd x + residual, which is also stored to job.sum.
template <bool kAdd>
__device__ float4 norm_input(const NormJob& job, std::int64_t col, float4 v, float4 residual) {
  if constexpr (kAdd) {
    v = {__fadd_rn(v.x, residual.x), __fadd_rn(v.y, residual.y), __fadd_rn(v.z, residual.z),
         __fadd_rn(v.w, residual.w)};
    store_float4(job.sum.data + blockIdx.x * job.sum.stride, col, job.cols, job.vectors, v);
  }
  return v;
}

// Sum over the block, in ascending warp order.
__device__ float sum_of_squares(float value) {
  __shared__ float warp_sums[kMaxNormWarps];
  value = warp_sum(value);
  if (blockDim.x == kWarpSize) return value;
  if (threadIdx.x % kWarpSize == 0) warp_sums[threadIdx.x / kWarpSize] = value;
  __syncthreads();
  const auto num_warps = static_cast<int>(blockDim.x) / kWarpSize;
  float total = 0.0F;
  GRAFT_UNROLL
  for (int i = 0; i < kMaxNormWarps; ++i)
    total += i < num_warps ? warp_sums[i] : 0.0F;
  return total;
}

// Quantizes 4 values of a Q8 group of 32; 8 adjacent lanes hold one group.
__device__ void store_q8(const NormJob& job, std::int64_t col, float4 v) {
  float max_abs = fmaxf(fmaxf(fabsf(v.x), fabsf(v.y)), fmaxf(fabsf(v.z), fabsf(v.w)));
  GRAFT_UNROLL
  for (int lane_mask = 1; lane_mask < kQ8GroupSize / 4; lane_mask *= 2)
    max_abs = fmaxf(max_abs, __shfl_xor_sync(kAllLanes, max_abs, lane_mask));
  const float scale = q8_scale(max_abs);
  const int4 codes = {quantize_q8(v.x, max_abs, scale), quantize_q8(v.y, max_abs, scale),
                      quantize_q8(v.z, max_abs, scale), quantize_q8(v.w, max_abs, scale)};
  int sum = codes.x + codes.y + codes.z + codes.w;
  GRAFT_UNROLL
  for (int lane_mask = 1; lane_mask < kQ8GroupSize / 4; lane_mask *= 2)
    sum += __shfl_xor_sync(kAllLanes, sum, lane_mask);
  if (col >= job.cols) return;
  const std::int64_t index = blockIdx.x * job.cols + col;
  *reinterpret_cast<char4*>(job.q8.quants + index) =
      make_char4(static_cast<signed char>(codes.x), static_cast<signed char>(codes.y),
                 static_cast<signed char>(codes.z), static_cast<signed char>(codes.w));
  if (col % kQ8GroupSize == 0) {
    reinterpret_cast<float2*>(job.q8.scales)[index / kQ8GroupSize] = q8_scale_and_sum(scale, sum);
  }
}

// One block per row, norm_warps(cols) warps. Thread t holds columns 4 t … 4 t + 3 of every
// 4 * blockDim.x columns. The summation order depends on the number of threads, so on cols only.
template <bool kAdd, NormOutput kOutput>
__global__ void __launch_bounds__(kMaxNormWarps* kWarpSize) rms_norm_kernel(NormJob job) {
  begin_kernel();
  const std::int64_t step = std::int64_t{4} * blockDim.x;
  const std::int64_t first = std::int64_t{4} * threadIdx.x;
  const float* x = job.x.data + blockIdx.x * job.x.stride;
  const float* residual = job.residual.data + blockIdx.x * job.residual.stride;
  // Issue all loads before the first use; the weights arrive while the squares are summed.
  float4 values[kRegisterVectors];
  float4 added[kRegisterVectors] = {};
  float4 weights[kRegisterVectors];
  GRAFT_UNROLL
  for (int i = 0; i < kRegisterVectors; ++i) {
    values[i] = load_float4(x, first + i * step, job.cols, job.vectors);
    if constexpr (kAdd) added[i] = load_float4(residual, first + i * step, job.cols, job.vectors);
    weights[i] = load_float4(job.weight, first + i * step, job.cols, job.vectors);
  }
  float squares = 0.0F;
  GRAFT_UNROLL
  for (int i = 0; i < kRegisterVectors; ++i) {
    values[i] = norm_input<kAdd>(job, first + i * step, values[i], added[i]);
    squares = add_squares(squares, values[i]);
  }
  const std::int64_t rest = first + kRegisterVectors * step;
  for (std::int64_t col = rest; col < job.cols; col += step) {
    float4 added_rest = {};
    if constexpr (kAdd) added_rest = load_float4(residual, col, job.cols, job.vectors);
    squares = add_squares(
        squares,
        norm_input<kAdd>(job, col, load_float4(x, col, job.cols, job.vectors), added_rest));
  }
  const float factor = inverse_rms(sum_of_squares(squares), job.cols, job.eps);
  float* to = job.y.data + blockIdx.x * job.y.stride;
  GRAFT_UNROLL
  for (int i = 0; i < kRegisterVectors; ++i) {
    values[i] = normalized(values[i], factor, weights[i]);
    store_float4(to, first + i * step, job.cols, job.vectors, values[i]);
    if constexpr (kOutput == NormOutput::Q8) store_q8(job, first + i * step, values[i]);
  }
  if constexpr (kOutput == NormOutput::PanelRows) {
    const auto cols = static_cast<int>(job.cols);
    store_panel_row(
        job.panel_rows,
        {.row = static_cast<int>(blockIdx.x),
         .first = 0,
         .end = padded_panel_cols(cols),
         .cols = cols},
        values,
        [](int) {
          return float4{0, 0, 0, 0};
        },
        block_max);
  }
  const float* from = kAdd ? job.sum.data + blockIdx.x * job.sum.stride : x;
  for (std::int64_t col = rest; col < job.cols; col += step)
    store_float4(to, col, job.cols, job.vectors,
                 normalized(load_float4(from, col, job.cols, job.vectors), factor,
                            load_float4(job.weight, col, job.cols, job.vectors)));
}

template <bool kAdd, NormOutput kOutput>
void launch_norm(const char* name, NormJob job, std::int64_t rows, Stream stream) {
  job.vectors = job.cols % 4 == 0 && is_float4_aligned(job.x) && is_float4_aligned(job.residual) &&
                is_float4_aligned(job.y) && is_float4_aligned({job.weight, 0});
  const auto threads = static_cast<unsigned>(norm_warps(job.cols) * kWarpSize);
  launch(name, rms_norm_kernel<kAdd, kOutput>, {static_cast<unsigned>(rows), threads}, stream, job);
}

// The fused kernels convert from registers, so the row must fit into them.
std::int64_t max_register_cols(std::int64_t cols) {
  return norm_warps(cols) * kWarpSize * 4 * kRegisterVectors;
}

NormJob sum_job(Rows x, ConstRows residual, const float* weight, Rows y, const NormSize& size) {
  NormJob job = {};
  job.sum = x;
  job.x = x;
  job.residual = residual;
  job.weight = weight;
  job.y = y;
  job.cols = size.cols;
  job.eps = size.eps;
  return job;
}

// One block per row.
__global__ void scale_rows_kernel(Rows y,
                                  const float* scales,
                                  const float* bias,
                                  std::int64_t cols) {
  begin_kernel();
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
  NormJob job = {};
  job.x = x;
  job.weight = weight;
  job.y = y;
  job.cols = cols;
  job.eps = eps;
  launch_norm<false, NormOutput::None>("rms_norm", job, rows, stream);
}

void add_rms_norm(Rows x,
                  ConstRows residual,
                  const float* weight,
                  Rows y,
                  std::int64_t rows,
                  std::int64_t cols,
                  float eps,
                  Stream stream) {
  const NormSize size = {.rows = rows, .cols = cols, .eps = eps};
  launch_norm<true, NormOutput::None>("add_rms_norm", sum_job(x, residual, weight, y, size), rows,
                                      stream);
}

void add_rms_norm_q8(Rows x,
                     ConstRows residual,
                     const float* weight,
                     Rows y,
                     const Q8Rows& q8,
                     const NormSize& size,
                     Stream stream) {
  NormJob job = sum_job(x, residual, weight, y, size);
  job.q8 = q8;
  if (size.cols % kQ8GroupSize == 0 && size.cols <= max_register_cols(size.cols)) {
    launch_norm<true, NormOutput::Q8>("add_rms_norm_q8", job, size.rows, stream);
    return;
  }
  launch_norm<true, NormOutput::None>("add_rms_norm", job, size.rows, stream);
  quantize_rows(y, q8, size.rows, size.cols, stream);
}

void add_rms_norm_panel_rows(Rows x,
                             ConstRows residual,
                             const float* weight,
                             Rows y,
                             const PanelRows& panel_rows,
                             const NormSize& size,
                             Stream stream) {
  NormJob job = sum_job(x, residual, weight, y, size);
  job.panel_rows = panel_rows;
  // Padding columns are stored by threads that exist.
  if (padded_panel_cols(size.cols) <= max_register_cols(size.cols)) {
    launch_norm<true, NormOutput::PanelRows>("add_rms_norm_panel_rows", job, size.rows, stream);
    return;
  }
  launch_norm<true, NormOutput::None>("add_rms_norm", job, size.rows, stream);
  to_panel_rows(y, panel_rows, size.cols, stream);
}

void add(ConstRows a, ConstRows b, Rows y, std::int64_t rows, std::int64_t cols, Stream stream) {
  for_each_value("add", Add{a, b, y}, rows, cols, stream);
}

void silu_mul(
    ConstRows gate, ConstRows up, Rows y, std::int64_t rows, std::int64_t cols, Stream stream) {
  for_each_value("silu_mul", SiluMul{gate, up, y}, rows, cols, stream);
}

void limited_silu_mul(ConstRows gate,
                      ConstRows up,
                      Rows y,
                      float limit,
                      std::int64_t rows,
                      std::int64_t cols,
                      Stream stream) {
  for_each_value("limited_silu_mul", LimitedSiluMul{gate, up, y, limit}, rows, cols, stream);
}

void gelu_mul(
    ConstRows gate, ConstRows up, Rows y, std::int64_t rows, std::int64_t cols, Stream stream) {
  for_each_value("gelu_mul", GeluMul{gate, up, y}, rows, cols, stream);
}

void scale(Rows y, float factor, std::int64_t rows, std::int64_t cols, Stream stream) {
  for_each_value("scale", Scale{y, factor}, rows, cols, stream);
}

void add_gated(
    const float* gates, ConstRows x, Rows y, std::int64_t rows, std::int64_t cols, Stream stream) {
  for_each_value("add_gated", AddGated{gates, x, y}, rows, cols, stream);
}

void mul_sigmoid(ConstRows gates, Rows y, std::int64_t rows, std::int64_t cols, Stream stream) {
  for_each_value("mul_sigmoid", MulSigmoid{gates, y}, rows, cols, stream);
}

void gather_rows(ConstRows x,
                 const std::int32_t* row_ids,
                 Rows y,
                 std::int64_t rows,
                 std::int64_t cols,
                 Stream stream) {
  for_each_value("gather_rows", Gather{x, row_ids, y}, rows, cols, stream);
}

void gather_columns(ConstRows x,
                    const std::int32_t* order,
                    Rows y,
                    std::int64_t rows,
                    std::int64_t cols,
                    Stream stream) {
  for_each_value("gather_columns", GatherColumns{x, order, y}, rows, cols, stream);
}

void gather_pair_columns(const PairColumns& job,
                         std::int64_t num_pairs,
                         std::int64_t top_k,
                         std::int64_t cols,
                         Stream stream) {
  for_each_value("gather_pair_columns", GatherPairColumns{job, top_k, cols}, num_pairs, cols,
                 stream);
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

}  // namespace graft::kernels::cuda
