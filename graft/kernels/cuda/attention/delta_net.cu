#include "graft/kernels/cuda/attention/delta_net.h"

#include "graft/kernels/cuda/launch.cuh"
#include "graft/kernels/cuda/silu.cuh"

namespace graft::kernels::cuda {
namespace {

constexpr int kDeltaThreads = 256;
constexpr int kConvTokens = 32;  // per thread block
constexpr float kL2Eps = 1e-6F;
// Threads that share a column of a state, each with every fourth row of it in registers, and
// columns per thread block.
constexpr int kColumnThreads = 4;
constexpr int kDeltaColumns = 32;

__host__ __device__ std::int64_t key_size(const DeltaNetShape& shape) {
  return shape.num_key_heads * shape.key_dim;
}

__host__ __device__ std::int64_t num_channels(const DeltaNetShape& shape) {
  return 2 * key_size(shape) + shape.num_value_heads * shape.value_dim;
}

struct DeltaJob {
  DeltaNetShape shape;
  DeltaNetBatch batch;
  DeltaNetWeights weights;
  DeltaNetRows rows;
};

__device__ float* conv_inputs(const DeltaJob& job, int slot) {
  return job.batch.slots.data + slot * job.batch.slots.stride +
         job.shape.num_value_heads * job.shape.key_dim * job.shape.value_dim;
}

// The input of a channel `token` tokens after the start of the sequence's rows; before them it is
// in the slot.
__device__ float input_at(const DeltaJob& job,
                          const DeltaSequence& sequence,
                          std::int64_t token,
                          std::int64_t channel) {
  if (token >= 0)
    return job.rows.qkv.data[(sequence.first_row + token) * job.rows.qkv.stride + channel];
  if (sequence.is_first != 0) return 0.0F;
  return conv_inputs(
      job, sequence.slot)[(job.shape.conv_kernel - 1 + token) * num_channels(job.shape) + channel];
}

// Grid: (channel blocks, token tiles, sequences), one thread per channel.
__global__ void conv_kernel(DeltaJob job) {
  begin_kernel();
  const std::int64_t channel = global_thread();
  const std::int64_t channels = num_channels(job.shape);
  if (channel >= channels) return;
  const DeltaSequence sequence = job.batch.sequences[blockIdx.z];
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.y) * kConvTokens;
  const std::int64_t end =
      first + kConvTokens < sequence.num_tokens ? first + kConvTokens : sequence.num_tokens;
  const std::int64_t taps = job.shape.conv_kernel;
  for (std::int64_t token = first; token < end; ++token) {
    float sum = 0.0F;
    for (std::int64_t tap = 0; sequence.slot >= 0 && tap < taps; ++tap) {
      sum += job.weights.taps[tap * channels + channel] *
             input_at(job, sequence, token - (taps - 1) + tap, channel);
    }
    job.rows.filtered.data[(sequence.first_row + token) * job.rows.filtered.stride + channel] =
        sum * sigmoid(sum);
  }
}

// After conv_kernel: the last inputs up to each checkpoint and to the end. Checkpoints first: they
// may need inputs of the slot. Grid: (channel blocks, sequences), one thread per channel.
__global__ void store_inputs_kernel(DeltaJob job) {
  begin_kernel();
  const std::int64_t channel = global_thread();
  const std::int64_t channels = num_channels(job.shape);
  const DeltaSequence sequence = job.batch.sequences[blockIdx.y];
  if (channel >= channels || sequence.slot < 0) return;
  const std::int64_t num_before = job.shape.conv_kernel - 1;
  for (int i = 0; i <= kStateCheckpoints; ++i) {
    const bool is_end = i == kStateCheckpoints;
    const int slot = is_end ? sequence.slot : sequence.checkpoint_slots[i];
    const int tokens = is_end ? sequence.num_tokens : sequence.checkpoint_tokens[i];
    if (slot < 0) continue;
    float* to = conv_inputs(job, slot);
    // Ascending, so that an input is read before it is replaced.
    for (std::int64_t k = 0; k < num_before; ++k)
      to[k * channels + channel] = input_at(job, sequence, tokens - num_before + k, channel);
  }
}

__device__ float softplus(float x) {
  return x > 20.0F ? x : log1pf(expf(x));
}

// L2 norms of q and k, decay in a, beta in b. One thread block per row, one warp per head.
__global__ void factors_kernel(DeltaJob job) {
  begin_kernel();
  const DeltaNetShape& shape = job.shape;
  const std::int64_t row = blockIdx.x;
  const int warp = static_cast<int>(threadIdx.x) / kWarpSize;
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const float scale = 1.0F / sqrtf(static_cast<float>(shape.key_dim));
  for (std::int64_t head = warp; head < 2 * shape.num_key_heads;
       head += kDeltaThreads / kWarpSize) {
    float* x = job.rows.filtered.data + row * job.rows.filtered.stride + head * shape.key_dim;
    float squares = 0.0F;
    for (std::int64_t i = lane; i < shape.key_dim; i += kWarpSize)
      squares += x[i] * x[i];
    const float factor =
        (head < shape.num_key_heads ? scale : 1.0F) / sqrtf(warp_sum(squares) + kL2Eps);
    for (std::int64_t i = lane; i < shape.key_dim; i += kWarpSize)
      x[i] *= factor;
  }
  for (std::int64_t head = threadIdx.x; head < shape.num_value_heads; head += kDeltaThreads) {
    float& a = job.rows.a.data[row * job.rows.a.stride + head];
    float& b = job.rows.b.data[row * job.rows.b.stride + head];
    a = expf(job.weights.decay[head] * softplus(a + job.weights.dt_bias[head]));
    b = sigmoid(b);
  }
}

// The sum over the threads of a column; every one gets the same bits.
__device__ float column_sum(float value) {
  GRAFT_UNROLL
  for (int step = kColumnThreads / 2; step > 0; step /= 2)
    value += __shfl_xor_sync(kAllLanes, value, step);
  return value;
}

// One thread block per 32 columns of the state of one head of one sequence; its rows are in
// registers, kRows in each thread. Grid: (column blocks, value heads, sequences).
template <int kRows>
__global__ void __launch_bounds__(kDeltaColumns* kColumnThreads) delta_rule_kernel(DeltaJob job) {
  begin_kernel();
  __shared__ float shared_q[kRows * kColumnThreads];
  __shared__ float shared_k[kRows * kColumnThreads];
  const DeltaNetShape& shape = job.shape;
  const int part = static_cast<int>(threadIdx.x) % kColumnThreads;
  const std::int64_t col =
      static_cast<std::int64_t>(blockIdx.x) * kDeltaColumns + threadIdx.x / kColumnThreads;
  const std::int64_t head = blockIdx.y;
  const bool has_col = col < shape.value_dim;
  const DeltaSequence sequence = job.batch.sequences[blockIdx.z];
  const std::int64_t out_col = head * shape.value_dim + col;
  const std::int64_t key_head = shape.tiled_value_heads
                                    ? head % shape.num_key_heads
                                    : head / (shape.num_value_heads / shape.num_key_heads);
  const auto state_of = [&](int slot) {
    return job.batch.slots.data + slot * job.batch.slots.stride +
           head * shape.key_dim * shape.value_dim + col;
  };
  const auto has_row = [&](int i) { return has_col && i * kColumnThreads + part < shape.key_dim; };

  if (sequence.slot < 0) {
    for (std::int64_t token = 0; has_col && part == 0 && token < sequence.num_tokens; ++token)
      job.rows.out.data[(sequence.first_row + token) * job.rows.out.stride + out_col] = 0.0F;
    return;
  }
  float state[kRows];
  GRAFT_UNROLL
  for (int i = 0; i < kRows; ++i) {
    state[i] = has_row(i) && sequence.is_first == 0
                   ? state_of(sequence.slot)[(i * kColumnThreads + part) * shape.value_dim]
                   : 0.0F;
  }
  const auto store = [&](int slot) {
    float* to = state_of(slot);
    GRAFT_UNROLL
    for (int i = 0; i < kRows; ++i) {
      if (has_row(i)) to[(i * kColumnThreads + part) * shape.value_dim] = state[i];
    }
  };
  for (int token = 0; token < sequence.num_tokens; ++token) {
    const std::int64_t row = sequence.first_row + token;
    const float* filtered = job.rows.filtered.data + row * job.rows.filtered.stride;
    __syncthreads();  // the token before has read them
    for (int i = static_cast<int>(threadIdx.x); i < kRows * kColumnThreads;
         i += static_cast<int>(blockDim.x)) {
      const bool is_key = i < shape.key_dim;
      shared_q[i] = is_key ? filtered[key_head * shape.key_dim + i] : 0.0F;
      shared_k[i] = is_key ? filtered[key_size(shape) + key_head * shape.key_dim + i] : 0.0F;
    }
    __syncthreads();
    const float decay = job.rows.a.data[row * job.rows.a.stride + head];
    const float beta = job.rows.b.data[row * job.rows.b.stride + head];
    float sum = 0.0F;
    GRAFT_UNROLL
    for (int i = 0; i < kRows; ++i) {
      state[i] *= decay;
      sum += state[i] * shared_k[i * kColumnThreads + part];
    }
    const float value = has_col ? filtered[2 * key_size(shape) + out_col] : 0.0F;
    const float delta = (value - column_sum(sum)) * beta;
    sum = 0.0F;
    GRAFT_UNROLL
    for (int i = 0; i < kRows; ++i) {
      state[i] += shared_k[i * kColumnThreads + part] * delta;
      sum += state[i] * shared_q[i * kColumnThreads + part];
    }
    sum = column_sum(sum);
    if (has_col && part == 0) job.rows.out.data[row * job.rows.out.stride + out_col] = sum;
    for (int i = 0; i < kStateCheckpoints; ++i) {
      if (sequence.checkpoint_slots[i] >= 0 && sequence.checkpoint_tokens[i] == token + 1)
        store(sequence.checkpoint_slots[i]);
    }
  }
  store(sequence.slot);
}

// out = norm(out) * silu(z), each head by itself. One thread block per row, one warp per head.
__global__ void gated_norm_kernel(DeltaJob job) {
  begin_kernel();
  const DeltaNetShape& shape = job.shape;
  const std::int64_t row = blockIdx.x;
  const int warp = static_cast<int>(threadIdx.x) / kWarpSize;
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  for (std::int64_t head = warp; head < shape.num_value_heads; head += kDeltaThreads / kWarpSize) {
    float* x = job.rows.out.data + row * job.rows.out.stride + head * shape.value_dim;
    const float* z = job.rows.z.data + row * job.rows.z.stride + head * shape.value_dim;
    float squares = 0.0F;
    for (std::int64_t i = lane; i < shape.value_dim; i += kWarpSize)
      squares += x[i] * x[i];
    const float inverse_rms =
        1.0F / sqrtf(warp_sum(squares) / static_cast<float>(shape.value_dim) + shape.eps);
    for (std::int64_t i = lane; i < shape.value_dim; i += kWarpSize)
      x[i] = swiglu(z[i], x[i] * inverse_rms * job.weights.norm[i]);
  }
}

template <int kRows>
void launch_delta_rule(const DeltaJob& job, Stream stream) {
  const dim3 grid(blocks_for(job.shape.value_dim, kDeltaColumns),
                  static_cast<unsigned>(job.shape.num_value_heads),
                  static_cast<unsigned>(job.batch.num_sequences));
  launch("delta_rule", delta_rule_kernel<kRows>, {grid, kDeltaColumns * kColumnThreads}, stream,
         job);
}

}  // namespace

void delta_net(const DeltaNetShape& shape,
               const DeltaNetBatch& batch,
               const DeltaNetWeights& weights,
               const DeltaNetRows& rows,
               Stream stream) {
  if (batch.num_rows == 0) return;
  const DeltaJob job = {shape, batch, weights, rows};
  const unsigned channel_blocks = blocks_for(num_channels(shape), kDeltaThreads);
  const auto sequences = static_cast<unsigned>(batch.num_sequences);
  const auto num_rows = static_cast<unsigned>(batch.num_rows);
  launch(
      "delta_conv", conv_kernel,
      {dim3(channel_blocks, blocks_for(batch.max_tokens, kConvTokens), sequences), kDeltaThreads},
      stream, job);
  launch("delta_store_inputs", store_inputs_kernel,
         {dim3(channel_blocks, sequences), kDeltaThreads}, stream, job);
  launch("delta_factors", factors_kernel, {num_rows, kDeltaThreads}, stream, job);
  constexpr std::int64_t kRowsOf[] = {16, 32, 64};
  if (shape.key_dim <= kRowsOf[0] * kColumnThreads) {
    launch_delta_rule<16>(job, stream);
  } else if (shape.key_dim <= kRowsOf[1] * kColumnThreads) {
    launch_delta_rule<32>(job, stream);
  } else {
    launch_delta_rule<64>(job, stream);
  }
  launch("delta_gated_norm", gated_norm_kernel, {num_rows, kDeltaThreads}, stream, job);
}

}  // namespace graft::kernels::cuda
