// A thread block multiplies one panel (16 rows) with the row of one pair. Half a warp reads 32
// columns of all 16 rows, one row per thread; the half-warps take turns over the columns, and their
// sums are added in ascending order.

#include "graft/kernels/cuda/moe/panel_experts.h"

#include <array>
#include <utility>

#include "graft/base/check.h"
#include "graft/kernels/cuda/formats/panel_blocks.cuh"
#include "graft/kernels/cuda/silu.cuh"

namespace graft::kernels::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kHalfWarps = kThreads / kPanelRows;
constexpr std::int64_t kMaxGridSide = 65535;

struct GemvJob {
  const std::uint8_t* panels = nullptr;
  const std::uint8_t* up_panels = nullptr;  // null: one product, no activation
  std::size_t matrix_bytes = 0;
  std::int64_t panel_bytes = 0;
  std::int64_t rows = 0;                     // of a matrix
  int num_blocks = 0;                        // of 32 columns
  const std::int32_t* matrix_ids = nullptr;  // [pairs]; negative: none, y is not written
  ConstRows x;
  std::int64_t pairs_per_x = 1;  // consecutive pairs that share a row of x
  float* y = nullptr;            // [pairs, rows]
  const float* bias = nullptr;   // [experts, rows]; null: none
  const float* up_bias = nullptr;
  const std::int32_t* bias_ids = nullptr;  // [pairs], experts
  float swiglu_limit = 0.0F;
  bool limits_silu = false;
};

// One row of 32 columns times x.
template <DType kType>
__device__ float dot_block(const std::uint8_t* panel, int block, int row, const float* x) {
  using Layout = PanelLayout<kType>;
  constexpr int kChunkBlocks = Layout::kChunkCols / kPanelBlockCols;
  const PanelBlock<kType> weights(panel + std::int64_t{block / kChunkBlocks} * Layout::kChunkBytes,
                                  block % kChunkBlocks, row);
  float sum = 0.0F;
  GRAFT_UNROLL
  for (int run = 0; run < kPanelBlockCols / kRun; ++run) {
    float values[kRun];
    weights.decode(run, values);
    const auto* four = reinterpret_cast<const float4*>(x + block * kPanelBlockCols + run * kRun);
    const float4 low = __ldg(four);
    const float4 high = __ldg(four + 1);
    sum = fmaf(values[0], low.x, sum);
    sum = fmaf(values[1], low.y, sum);
    sum = fmaf(values[2], low.z, sum);
    sum = fmaf(values[3], low.w, sum);
    sum = fmaf(values[4], high.x, sum);
    sum = fmaf(values[5], high.y, sum);
    sum = fmaf(values[6], high.z, sum);
    sum = fmaf(values[7], high.w, sum);
  }
  return sum;
}

// Grid: [panels of a matrix, pairs].
template <DType kType, bool kGated>
__global__ void __launch_bounds__(kThreads) panel_gemv_kernel(GemvJob job) {
  begin_kernel();
  __shared__ float sums[2][kHalfWarps][kPanelRows];
  const std::int64_t pair = blockIdx.y;
  const std::int32_t matrix = job.matrix_ids[pair];
  if (matrix < 0) return;
  const int half_warp = static_cast<int>(threadIdx.x) / kPanelRows;
  const int row = static_cast<int>(threadIdx.x) % kPanelRows;
  const std::size_t offset = static_cast<std::size_t>(matrix) * job.matrix_bytes +
                             static_cast<std::size_t>(blockIdx.x) * job.panel_bytes;
  const float* x = job.x.data + pair / job.pairs_per_x * job.x.stride;
  float sum = 0.0F;
  float up_sum = 0.0F;
  for (int block = half_warp; block < job.num_blocks; block += kHalfWarps) {
    sum += dot_block<kType>(job.panels + offset, block, row, x);
    if constexpr (kGated) up_sum += dot_block<kType>(job.up_panels + offset, block, row, x);
  }
  sums[0][half_warp][row] = sum;
  if constexpr (kGated) sums[1][half_warp][row] = up_sum;
  __syncthreads();
  const std::int64_t out = std::int64_t{blockIdx.x} * kPanelRows + row;
  if (half_warp > 0 || out >= job.rows) return;
  float total = 0.0F;
  float up_total = 0.0F;
  GRAFT_UNROLL
  for (int i = 0; i < kHalfWarps; ++i) {
    total += sums[0][i][row];
    if constexpr (kGated) up_total += sums[1][i][row];
  }
  if (job.bias != nullptr) {
    const std::int64_t at = job.bias_ids[pair] * job.rows + out;
    total = __fadd_rn(total, job.bias[at]);
    if constexpr (kGated) up_total = __fadd_rn(up_total, job.up_bias[at]);
  }
  job.y[pair * job.rows + out] =
      kGated ? swiglu(total, up_total, job.swiglu_limit, job.limits_silu) : total;
}

using Launch = void (*)(const GemvJob& job, std::int64_t pairs, Stream stream);

template <DType kType>
void launch_gemv(const GemvJob& job, std::int64_t pairs, Stream stream) {
  const dim3 grid(blocks_for(job.rows, kPanelRows), static_cast<unsigned>(pairs));
  if (job.up_panels != nullptr) {
    launch("panel_gemv", panel_gemv_kernel<kType, true>, {grid, kThreads}, stream, job);
  } else {
    launch("panel_gemv", panel_gemv_kernel<kType, false>, {grid, kThreads}, stream, job);
  }
}

template <std::size_t... kIndices>
constexpr std::array<Launch, kNumDTypes> make_table(std::index_sequence<kIndices...> /*types*/) {
  std::array<Launch, kNumDTypes> table{};
  ((table[static_cast<std::size_t>(packing::kPackedTypes[kIndices].dtype)] =
        launch_gemv<packing::kPackedTypes[kIndices].dtype>),
   ...);
  return table;
}

constexpr auto kTable = make_table(std::make_index_sequence<packing::kPackedTypes.size()>{});

// y[pairs, rows]; `job` has the panels and the pairs.
void multiply(const PanelMatrices& matrices,
              std::int64_t rows,
              std::int64_t cols,
              GemvJob job,
              std::int64_t pairs,
              Stream stream) {
  const Launch function = kTable[static_cast<std::size_t>(matrices.dtype)];
  GRAFT_CHECK(function != nullptr, "no panels of ", name(matrices.dtype));
  GRAFT_CHECK(pairs <= kMaxGridSide, pairs, " token-expert pairs");
  job.panels = reinterpret_cast<const std::uint8_t*>(matrices.panels);
  job.matrix_bytes = matrices.matrix_bytes;
  job.panel_bytes = packing::panel_bytes(packing::packed_format(matrices.dtype), cols);
  job.rows = rows;
  job.num_blocks = static_cast<int>(cols / kPanelBlockCols);
  function(job, pairs, stream);
}

__global__ void map_to_slots_kernel(const std::int32_t* expert_ids,
                                    const std::int32_t* slot_of,
                                    std::int32_t* slots,
                                    std::int64_t count) {
  begin_kernel();
  const std::int64_t i = global_thread();
  if (i < count) slots[i] = expert_ids[i] < 0 ? -1 : slot_of[expert_ids[i]];
}

__global__ void set_slot_kernel(std::int32_t* slot_of, std::int64_t expert, std::int32_t slot) {
  begin_kernel();
  slot_of[expert] = slot;
}

std::size_t inner_bytes(const PanelExpertsJob& job, std::int64_t rows) {
  return aligned_bytes(static_cast<std::size_t>(rows * job.top_k * job.intermediate) *
                       sizeof(float));
}

}  // namespace

std::size_t panel_experts_bytes(const PanelExpertsJob& job, std::int64_t rows) {
  return inner_bytes(job, rows) +
         static_cast<std::size_t>(rows * job.top_k * job.hidden) * sizeof(float);
}

void panel_experts(const PanelExpertsJob& job,
                   const RoutedRows& routed,
                   void* scratch,
                   Stream stream) {
  if (routed.rows == 0) return;
  GRAFT_CHECK(job.gate.dtype == job.up.dtype && job.gate.matrix_bytes == job.up.matrix_bytes,
              "gate and up differ");
  const std::int64_t pairs = routed.rows * job.top_k;
  auto* inner = static_cast<float*>(scratch);
  auto* results =
      reinterpret_cast<float*>(static_cast<std::byte*>(scratch) + inner_bytes(job, routed.rows));
  const std::int32_t* bias_ids = routed.bias_ids == nullptr ? routed.expert_ids : routed.bias_ids;
  multiply(job.gate, job.intermediate, job.hidden,
           {.up_panels = reinterpret_cast<const std::uint8_t*>(job.up.panels),
            .matrix_ids = routed.expert_ids,
            .x = routed.x,
            .pairs_per_x = job.top_k,
            .y = inner,
            .bias = job.epilogue.gate_bias,
            .up_bias = job.epilogue.up_bias,
            .bias_ids = bias_ids,
            .swiglu_limit = job.epilogue.swiglu_limit,
            .limits_silu = job.epilogue.limits_silu},
           pairs, stream);
  multiply(job.down, job.hidden, job.intermediate,
           {.matrix_ids = routed.expert_ids,
            .x = {inner, job.intermediate},
            .y = results,
            .bias = job.epilogue.down_bias,
            .bias_ids = bias_ids},
           pairs, stream);
  sum_pairs(routed, results, job.top_k, job.hidden, stream);
}

void map_to_slots(const std::int32_t* expert_ids,
                  const std::int32_t* slot_of,
                  std::int32_t* slots,
                  std::int64_t count,
                  Stream stream) {
  launch("map_to_slots", map_to_slots_kernel, {blocks_for(count, kThreads), kThreads}, stream,
         expert_ids, slot_of, slots, count);
}

void set_slot(std::int32_t* slot_of, std::int64_t expert, std::int64_t slot, Stream stream) {
  launch("set_slot", set_slot_kernel, {1, 1}, stream, slot_of, expert,
         static_cast<std::int32_t>(slot));
}

}  // namespace graft::kernels::cuda
