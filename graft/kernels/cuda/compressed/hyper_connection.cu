// Reading the streams takes two launches: sums over slices of the columns, so that a few rows
// occupy the whole GPU, then their totals in every block that needs them.
//
//    partials  [rows, slices, num_logits + 1] f32: products of a slice, last the sum of squares

#include "graft/kernels/cuda/compressed/hyper_connection.h"

#include "graft/base/check.h"
#include "graft/kernels/cuda/launch.cuh"
#include "graft/kernels/cuda/silu.cuh"

namespace graft::kernels::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / kWarpSize;
constexpr int kSliceCols = 256;  // columns of a partial sum
constexpr int kTileRows = 4;     // rows that share the weights of a slice
constexpr int kMaxStreams = kMaxHyperStreams;
constexpr int kMaxLogits = (2 + kMaxStreams) * kMaxStreams;
// The mixed matrix of four streams, those of the published models, stays in registers.
constexpr int kFewStreams = 4;

struct HyperJob {
  HyperShape shape;
  HyperWeights weights;
  ConstRows streams;
  Rows y;
  Rows mix;
  float* partials;
  int num_logits;
  int num_slices;
  std::int64_t rows;
};

// Grid: (rows, column blocks), one thread per column of x.
__global__ void __launch_bounds__(kThreads)
    replicate_kernel(ConstRows x, Rows streams, std::int64_t hidden, int mult) {
  begin_kernel();
  const std::int64_t col = static_cast<std::int64_t>(blockIdx.y) * kThreads + threadIdx.x;
  if (col >= hidden) return;
  const float value = x.data[blockIdx.x * x.stride + col];
  for (int s = 0; s < mult; ++s)
    streams.data[blockIdx.x * streams.stride + s * hidden + col] = value;
}

// Grid: (slices, tiles of rows). A warp has every kWarps-th logit, for all rows of the tile.
__global__ void __launch_bounds__(kThreads) hyper_partials_kernel(HyperJob job) {
  __shared__ float tile[kTileRows][kSliceCols];
  const std::int64_t cols = job.shape.mult * job.shape.hidden;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * kSliceCols;
  const auto count = static_cast<int>(cols - first < kSliceCols ? cols - first : kSliceCols);
  const std::int64_t first_row = static_cast<std::int64_t>(blockIdx.y) * kTileRows;
  const auto lane = static_cast<int>(threadIdx.x) % kWarpSize;
  begin_kernel();
  for (int i = static_cast<int>(threadIdx.x); i < kTileRows * kSliceCols; i += kThreads) {
    const std::int64_t row = first_row + i / kSliceCols;
    const int col = i % kSliceCols;
    tile[i / kSliceCols][col] = row < job.rows && col < count
                                    ? job.streams.data[row * job.streams.stride + first + col]
                                    : 0.0F;
  }
  __syncthreads();
  for (int logit = static_cast<int>(threadIdx.x) / kWarpSize; logit <= job.num_logits;
       logit += kWarps) {
    const bool is_product = logit < job.num_logits;
    const float* weights = job.weights.fn + logit * cols + first;
    float sums[kTileRows] = {};
    GRAFT_UNROLL
    for (int i = 0; i < kSliceCols / kWarpSize; ++i) {
      const int col = i * kWarpSize + lane;
      const float weight = is_product && col < count ? weights[col] : 0.0F;
      GRAFT_UNROLL
      for (int r = 0; r < kTileRows; ++r) {
        const float x = tile[r][col];
        sums[r] = fmaf(is_product ? weight : x, x, sums[r]);
      }
    }
    GRAFT_UNROLL
    for (int r = 0; r < kTileRows; ++r) {
      const float sum = warp_sum(sums[r]);
      if (lane != 0 || first_row + r >= job.rows) continue;
      job.partials[((first_row + r) * job.num_slices + blockIdx.x) * (job.num_logits + 1) + logit] =
          sum;
    }
  }
}

// logits[count] = the first `count` logits of a row, scaled to the row's root mean square, and with
// their scales and biases. All threads of the block must call it.
__device__ void total_logits(const HyperJob& job, std::int64_t row, int count, float* logits) {
  __shared__ float sums[kWarps][kWarpSize];
  __shared__ float factor;
  const auto lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const auto warp = static_cast<int>(threadIdx.x) / kWarpSize;
  const int width = job.num_logits + 1;
  const float* partials = job.partials + row * job.num_slices * width;
  const auto mult = static_cast<int>(job.shape.mult);
  // Index -1 is the sum of squares, which all logits need.
  for (int first = -1; first < count; first += kWarpSize) {
    const int i = first + lane;
    const int at = i < 0 ? job.num_logits : i;
    float sum = 0.0F;
    if (i < count) {
      GRAFT_UNROLL_4
      for (int slice = warp; slice < job.num_slices; slice += kWarps)
        sum += partials[slice * width + at];
    }
    __syncthreads();  // the totals before are computed
    sums[warp][lane] = sum;
    __syncthreads();
    if (warp != 0) continue;
    float total = 0.0F;
    for (int w = 0; w < kWarps; ++w)
      total += sums[w][lane];
    if (i == -1) {
      const auto cols = static_cast<float>(job.shape.mult * job.shape.hidden);
      factor = 1.0F / sqrtf(__fadd_rn(total / cols, job.shape.norm_eps));
    }
    __syncwarp();
    if (i < 0 || i >= count) continue;
    const int part = i < mult ? 0 : i < 2 * mult ? 1 : 2;
    logits[i] = total * factor * job.weights.scale[part] + job.weights.base[i];
  }
  __syncthreads();
}

// Divides the lines of the matrix by their sums + eps, a lane per line: line i begins at i * line,
// its elements are `step` apart. Called by one warp.
__device__ void normalize_lines(float* matrix, int mult, int line, int step, float eps) {
  const auto lane = static_cast<int>(threadIdx.x) % kWarpSize;
  __syncwarp();
  if (lane < mult) {
    float sum = 0.0F;
    for (int j = 0; j < mult; ++j)
      sum += matrix[lane * line + j * step];
    for (int j = 0; j < mult; ++j)
      matrix[lane * line + j * step] /= sum + eps;
  }
  __syncwarp();
}

// The same in registers; every lane has the whole matrix.
template <bool kColumns>
__device__ void normalize_few(float (&matrix)[kFewStreams * kFewStreams], float eps) {
  GRAFT_UNROLL
  for (int i = 0; i < kFewStreams; ++i) {
    constexpr int kLine = kColumns ? 1 : kFewStreams;
    constexpr int kStep = kColumns ? kFewStreams : 1;
    float sum = 0.0F;
    GRAFT_UNROLL
    for (int j = 0; j < kFewStreams; ++j)
      sum += matrix[i * kLine + j * kStep];
    const float factor = 1.0F / (sum + eps);
    GRAFT_UNROLL
    for (int j = 0; j < kFewStreams; ++j)
      matrix[i * kLine + j * kStep] *= factor;
  }
}

__device__ void balance_few(const HyperShape& shape, float* shared_matrix) {
  float matrix[kFewStreams * kFewStreams];
  GRAFT_UNROLL
  for (int i = 0; i < kFewStreams * kFewStreams; ++i)
    matrix[i] = shared_matrix[i];
  normalize_few<true>(matrix, shape.eps);
  for (std::int64_t i = 1; i < shape.sinkhorn_iters; ++i) {
    normalize_few<false>(matrix, shape.eps);
    normalize_few<true>(matrix, shape.eps);
  }
  __syncwarp();
  if (threadIdx.x % kWarpSize != 0) return;
  GRAFT_UNROLL
  for (int i = 0; i < kFewStreams * kFewStreams; ++i)
    shared_matrix[i] = matrix[i];
}

// Softmax of the matrix's rows, then columns and rows in turns are scaled towards sums of 1. Called
// by one warp.
__device__ void balance(const HyperShape& shape, float* matrix) {
  const auto mult = static_cast<int>(shape.mult);
  const auto lane = static_cast<int>(threadIdx.x) % kWarpSize;
  if (lane < mult) {
    float* row = matrix + lane * mult;
    float max = -INFINITY;
    for (int i = 0; i < mult; ++i)
      max = fmaxf(max, row[i]);
    float sum = 0.0F;
    for (int i = 0; i < mult; ++i) {
      row[i] = expf(row[i] - max);
      sum += row[i];
    }
    for (int i = 0; i < mult; ++i)
      row[i] = row[i] / sum + shape.eps;
  }
  __syncwarp();
  if (mult == kFewStreams) return balance_few(shape, matrix);
  normalize_lines(matrix, mult, 1, mult, shape.eps);
  for (std::int64_t i = 1; i < shape.sinkhorn_iters; ++i) {
    normalize_lines(matrix, mult, mult, 1, shape.eps);
    normalize_lines(matrix, mult, 1, mult, shape.eps);
  }
}

// The weights of the block's output and the matrix; one thread block per row.
__device__ void write_mix(const HyperJob& job, std::int64_t row, float* logits) {
  const auto mult = static_cast<int>(job.shape.mult);
  total_logits(job, row, job.num_logits, logits);
  if (threadIdx.x >= kWarpSize) return;
  float* matrix = logits + 2 * mult;
  balance(job.shape, matrix);
  __syncwarp();
  float* to = job.mix.data + row * job.mix.stride;
  for (int i = static_cast<int>(threadIdx.x); i < mult; i += kWarpSize)
    to[i] = 2.0F * sigmoid(logits[mult + i]);
  for (int i = static_cast<int>(threadIdx.x); i < mult * mult; i += kWarpSize)
    to[mult + i] = matrix[i];
}

// Grid: (rows, column blocks and, but for the head, one block for the mix), a thread per column.
__global__ void __launch_bounds__(kThreads) collapse_streams_kernel(HyperJob job) {
  begin_kernel();
  __shared__ float logits[kMaxLogits];
  const std::int64_t row = blockIdx.x;
  const std::int64_t col = static_cast<std::int64_t>(blockIdx.y) * kThreads + threadIdx.x;
  const auto mult = static_cast<int>(job.shape.mult);
  if (static_cast<std::int64_t>(blockIdx.y) * kThreads >= job.shape.hidden)
    return write_mix(job, row, logits);
  total_logits(job, row, mult, logits);
  if (static_cast<int>(threadIdx.x) < mult)
    logits[threadIdx.x] = sigmoid(logits[threadIdx.x]) + job.shape.eps;
  __syncthreads();
  if (col >= job.shape.hidden) return;
  const float* from = job.streams.data + row * job.streams.stride + col;
  float sum = 0.0F;
  GRAFT_UNROLL_4
  for (int s = 0; s < mult; ++s)
    sum = fmaf(logits[s], from[s * job.shape.hidden], sum);
  job.y.data[row * job.y.stride + col] = sum;
}

// Grid: (rows, column blocks), a thread per column of all streams.
template <int kStreams>
__global__ void __launch_bounds__(kThreads)
    add_to_streams_kernel(ConstRows y, ConstRows mix, Rows streams, std::int64_t hidden, int mult) {
  begin_kernel();
  __shared__ float weights[kStreams + kStreams * kStreams];
  const std::int64_t row = blockIdx.x;
  for (int i = static_cast<int>(threadIdx.x); i < mult + mult * mult; i += kThreads)
    weights[i] = mix.data[row * mix.stride + i];
  __syncthreads();
  const std::int64_t col = static_cast<std::int64_t>(blockIdx.y) * kThreads + threadIdx.x;
  if (col >= hidden) return;
  float* values = streams.data + row * streams.stride + col;
  const float own = y.data[row * y.stride + col];
  float old[kStreams];
  GRAFT_UNROLL
  for (int s = 0; s < kStreams; ++s)
    old[s] = s < mult ? values[s * hidden] : 0.0F;
  GRAFT_UNROLL
  for (int to = 0; to < kStreams; ++to) {
    if (to >= mult) break;
    float sum = weights[to] * own;
    GRAFT_UNROLL
    for (int s = 0; s < kStreams; ++s) {
      if (s < mult) sum = fmaf(weights[mult + s * mult + to], old[s], sum);
    }
    values[to * hidden] = sum;
  }
}

int num_slices(const HyperShape& shape) {
  return static_cast<int>(ceil_div(shape.mult * shape.hidden, kSliceCols));
}

}  // namespace

void replicate_streams(
    const HyperShape& shape, ConstRows x, Rows streams, std::int64_t rows, Stream stream) {
  const dim3 grid(static_cast<unsigned>(rows), blocks_for(shape.hidden, kThreads));
  launch("replicate_streams", replicate_kernel, {grid, kThreads}, stream, x, streams, shape.hidden,
         static_cast<int>(shape.mult));
}

std::size_t collapse_streams_bytes(const HyperShape& shape, std::int64_t rows) {
  return static_cast<std::size_t>(rows * num_slices(shape) * (shape.num_logits() + 1)) *
         sizeof(float);
}

void collapse_streams(const HyperShape& shape,
                      const HyperWeights& weights,
                      ConstRows streams,
                      Rows y,
                      Rows mix,
                      std::int64_t rows,
                      void* scratch,
                      Stream stream) {
  GRAFT_CHECK(shape.mult > 0 && shape.mult <= kMaxHyperStreams, shape.mult, " streams, max ",
              kMaxHyperStreams);
  const HyperJob job = {.shape = shape,
                        .weights = weights,
                        .streams = streams,
                        .y = y,
                        .mix = mix,
                        .partials = static_cast<float*>(scratch),
                        .num_logits = static_cast<int>(shape.num_logits()),
                        .num_slices = num_slices(shape),
                        .rows = rows};
  const dim3 slices(static_cast<unsigned>(job.num_slices), blocks_for(rows, kTileRows));
  launch("hyper_partials", hyper_partials_kernel, {slices, kThreads}, stream, job);
  const unsigned blocks = blocks_for(shape.hidden, kThreads) + (shape.is_head ? 0 : 1);
  launch("collapse_streams", collapse_streams_kernel,
         {dim3(static_cast<unsigned>(rows), blocks), kThreads}, stream, job);
}

void add_to_streams(const HyperShape& shape,
                    ConstRows y,
                    ConstRows mix,
                    Rows streams,
                    std::int64_t rows,
                    Stream stream) {
  const dim3 grid(static_cast<unsigned>(rows), blocks_for(shape.hidden, kThreads));
  const auto kernel = shape.mult <= kFewStreams ? add_to_streams_kernel<kFewStreams>
                                                : add_to_streams_kernel<kMaxStreams>;
  launch("add_to_streams", kernel, {grid, kThreads}, stream, y, mix, streams, shape.hidden,
         static_cast<int>(shape.mult));
}

}  // namespace graft::kernels::cuda
