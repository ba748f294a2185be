#include "graft/kernels/cuda/elementwise.h"

#include "graft/kernels/cuda/formats/bits.cuh"
#include "graft/kernels/cuda/linear/quantize.cuh"
#include "graft/kernels/cuda/rms_norm.cuh"
#include "graft/kernels/cuda/silu.cuh"

namespace graft::kernels::cuda {
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

struct SiluMul {
  ConstRows gate;
  ConstRows up;
  Rows y;
  __device__ void operator()(std::int64_t row, std::int64_t col) const {
    y.data[row * y.stride + col] =
        silu_times(gate.data[row * gate.stride + col], up.data[row * up.stride + col]);
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

constexpr int kVectorsInHand = 4;  // which a thread need not read again

struct NormJob {
  Rows sum;  // where x + more goes; not looked at where nothing is added
  ConstRows x;
  ConstRows more;
  const float* weight;
  Rows y;
  std::int64_t cols;
  float eps;
  bool vectors;  // four values can be loaded at once everywhere
  Q8Rows bytes;  // where y goes rounded as well; not looked at where it does not
};

// What is normed: x, or its sum with `more`, which is written too.
template <bool kAdds>
__device__ float4 norm_input(const NormJob& job, std::int64_t col, float4 v, float4 more) {
  if constexpr (kAdds) {
    v = {__fadd_rn(v.x, more.x), __fadd_rn(v.y, more.y), __fadd_rn(v.z, more.z),
         __fadd_rn(v.w, more.w)};
    store_four(job.sum.data + blockIdx.x * job.sum.stride, col, job.cols, job.vectors, v);
  }
  return v;
}

// Over the block, the warps in ascending order.
__device__ float sum_of_squares(float value) {
  __shared__ float parts[kNormWarps];
  value = warp_sum(value);
  if (blockDim.x == kWarp) return value;
  if (threadIdx.x % kWarp == 0) parts[threadIdx.x / kWarp] = value;
  __syncthreads();
  const auto num_warps = static_cast<int>(blockDim.x) / kWarp;
  float total = 0.0F;
  GRAFT_UNROLL
  for (int i = 0; i < kNormWarps; ++i)
    total += i < num_warps ? parts[i] : 0.0F;
  return total;
}

// Four values of a group of 32, which eight lanes have between them.
__device__ void store_bytes(const NormJob& job, std::int64_t col, float4 v) {
  float largest = fmaxf(fmaxf(fabsf(v.x), fabsf(v.y)), fmaxf(fabsf(v.z), fabsf(v.w)));
  GRAFT_UNROLL
  for (int distance = 1; distance < kGroup / 4; distance *= 2)
    largest = fmaxf(largest, __shfl_xor_sync(kAllLanes, largest, distance));
  const float step = step_of(largest);
  const int4 codes = {code_of(v.x, largest, step), code_of(v.y, largest, step),
                      code_of(v.z, largest, step), code_of(v.w, largest, step)};
  int sum = codes.x + codes.y + codes.z + codes.w;
  GRAFT_UNROLL
  for (int distance = 1; distance < kGroup / 4; distance *= 2)
    sum += __shfl_xor_sync(kAllLanes, sum, distance);
  if (col >= job.cols) return;
  const std::int64_t place = blockIdx.x * job.cols + col;
  *reinterpret_cast<char4*>(job.bytes.quants + place) =
      make_char4(static_cast<signed char>(codes.x), static_cast<signed char>(codes.y),
                 static_cast<signed char>(codes.z), static_cast<signed char>(codes.w));
  if (col % kGroup == 0) {
    reinterpret_cast<float2*>(job.bytes.scales)[place / kGroup] = scale_of(step, sum);
  }
}

// A block per row. The order of the sum depends on the number of threads, which `cols` decides.
template <bool kAdds, bool kRounds>
__global__ void __launch_bounds__(kNormWarps* kWarp) rms_norm_kernel(NormJob job) {
  const std::int64_t step = std::int64_t{4} * blockDim.x;
  const std::int64_t first = std::int64_t{4} * threadIdx.x;
  const float* x = job.x.data + blockIdx.x * job.x.stride;
  const float* more = job.more.data + blockIdx.x * job.more.stride;
  // All are asked for before the first is used; the weights arrive while the squares are added up.
  float4 values[kVectorsInHand];
  float4 added[kVectorsInHand] = {};
  float4 weights[kVectorsInHand];
  GRAFT_UNROLL
  for (int i = 0; i < kVectorsInHand; ++i) {
    values[i] = load_four(x, first + i * step, job.cols, job.vectors);
    if constexpr (kAdds) added[i] = load_four(more, first + i * step, job.cols, job.vectors);
    weights[i] = load_four(job.weight, first + i * step, job.cols, job.vectors);
  }
  float squares = 0.0F;
  GRAFT_UNROLL
  for (int i = 0; i < kVectorsInHand; ++i) {
    values[i] = norm_input<kAdds>(job, first + i * step, values[i], added[i]);
    squares = add_squares(squares, values[i]);
  }
  const std::int64_t rest = first + kVectorsInHand * step;
  for (std::int64_t col = rest; col < job.cols; col += step) {
    float4 also = {};
    if constexpr (kAdds) also = load_four(more, col, job.cols, job.vectors);
    squares = add_squares(
        squares, norm_input<kAdds>(job, col, load_four(x, col, job.cols, job.vectors), also));
  }
  const float factor = inverse_rms(sum_of_squares(squares), job.cols, job.eps);
  float* to = job.y.data + blockIdx.x * job.y.stride;
  GRAFT_UNROLL
  for (int i = 0; i < kVectorsInHand; ++i) {
    const float4 y = normed(values[i], factor, weights[i]);
    store_four(to, first + i * step, job.cols, job.vectors, y);
    if constexpr (kRounds) store_bytes(job, first + i * step, y);
  }
  const float* from = kAdds ? job.sum.data + blockIdx.x * job.sum.stride : x;
  for (std::int64_t col = rest; col < job.cols; col += step)
    store_four(to, col, job.cols, job.vectors,
               normed(load_four(from, col, job.cols, job.vectors), factor,
                      load_four(job.weight, col, job.cols, job.vectors)));
}

template <bool kAdds, bool kRounds>
void launch_norm(const char* name, NormJob job, std::int64_t rows, Stream stream) {
  job.vectors = job.cols % 4 == 0 && in_vectors(job.x) && in_vectors(job.more) &&
                in_vectors(job.y) && in_vectors({job.weight, 0});
  const auto threads = static_cast<unsigned>(norm_warps(job.cols) * kWarp);
  launch(name, rms_norm_kernel<kAdds, kRounds>, {static_cast<unsigned>(rows), threads}, stream,
         job);
}

NormJob sum_job(Rows x, ConstRows more, const float* weight, Rows y, const NormSize& size) {
  NormJob job = {};
  job.sum = x;
  job.x = x;
  job.more = more;
  job.weight = weight;
  job.y = y;
  job.cols = size.cols;
  job.eps = size.eps;
  return job;
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
  NormJob job = {};
  job.x = x;
  job.weight = weight;
  job.y = y;
  job.cols = cols;
  job.eps = eps;
  launch_norm<false, false>("rms_norm", job, rows, stream);
}

void add_rms_norm(Rows x,
                  ConstRows more,
                  const float* weight,
                  Rows y,
                  std::int64_t rows,
                  std::int64_t cols,
                  float eps,
                  Stream stream) {
  const NormSize size = {.rows = rows, .cols = cols, .eps = eps};
  launch_norm<true, false>("add_rms_norm", sum_job(x, more, weight, y, size), rows, stream);
}

void add_rms_norm_q8(Rows x,
                     ConstRows more,
                     const float* weight,
                     Rows y,
                     const Q8Rows& bytes,
                     const NormSize& size,
                     Stream stream) {
  NormJob job = sum_job(x, more, weight, y, size);
  job.bytes = bytes;
  // What a thread does not have in hand it could not round.
  const std::int64_t in_hand = norm_warps(size.cols) * kWarp * 4 * kVectorsInHand;
  if (size.cols % kGroup == 0 && size.cols <= in_hand) {
    launch_norm<true, true>("add_rms_norm_q8", job, size.rows, stream);
    return;
  }
  launch_norm<true, false>("add_rms_norm", job, size.rows, stream);
  quantize_rows(y, bytes, size.rows, size.cols, stream);
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

}  // namespace graft::kernels::cuda
