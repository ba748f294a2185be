#include "graft/kernels/cuda/moe/experts.h"

#include <algorithm>

#include "graft/kernels/cuda/elementwise.h"
#include "graft/kernels/cuda/launch.cuh"

namespace graft::kernels::cuda {
namespace {

constexpr int kThreads = 128;

// y[token] = sum over k of weights[k] * rows[token * top_k + k], in the order of the routing list.
// Grid: (tokens, column blocks), one thread per column. A pair without expert is skipped, whatever
// its row holds.
__global__ void sum_pairs_kernel(RoutedRows routed,
                                 const float* rows,
                                 std::int64_t top_k,
                                 std::int64_t hidden) {
  begin_kernel();
  constexpr int kUnroll = 8;  // loads in flight
  const std::int64_t token = blockIdx.x;
  const std::int64_t col = static_cast<std::int64_t>(blockIdx.y) * blockDim.x + threadIdx.x;
  if (col >= hidden) return;
  float sum = 0.0F;
  for (std::int64_t begin = 0; begin < top_k; begin += kUnroll) {
    float values[kUnroll];
    float weights[kUnroll];
    bool has_expert[kUnroll];
    GRAFT_UNROLL
    for (int i = 0; i < kUnroll; ++i) {
      const std::int64_t pair = token * top_k + begin + i;
      const bool in_range = begin + i < top_k;
      has_expert[i] = in_range && routed.expert_ids[pair] >= 0;
      values[i] = in_range ? rows[pair * hidden + col] : 0.0F;
      weights[i] = in_range ? routed.weights[pair] : 0.0F;
    }
    GRAFT_UNROLL
    for (int i = 0; i < kUnroll; ++i)
      if (has_expert[i]) sum = __fadd_rn(sum, __fmul_rn(weights[i], values[i]));
  }
  routed.y.data[token * routed.y.stride + col] = sum;
}

// Arrays in scratch memory; p = token-expert pairs.
struct Scratch {
  // [2, p, intermediate]: gate and up, then silu(gate) * up in place of gate. [p, intermediate] in
  // the mma path, which does not store gate and up.
  float* inner = nullptr;
  float* results = nullptr;   // [p, hidden]: output of each pair's expert
  void* converted = nullptr;  // Q8Rows or F16Rows of x, then of inner
  PairGroups groups;
  std::size_t bytes = 0;
  const Q8Rows* x_q8 = nullptr;  // x quantized by the caller; null: quantized here
};

class ScratchAllocator {
 public:
  explicit ScratchAllocator(void* memory) : memory_(static_cast<std::byte*>(memory)) {}

  void* allocate(std::size_t bytes) {
    std::byte* block = memory_ == nullptr ? nullptr : memory_ + used_;
    used_ += aligned_bytes(bytes);
    return block;
  }
  std::size_t used() const { return used_; }

 private:
  std::byte* memory_;
  std::size_t used_ = 0;
};

std::int64_t max_gemv_pairs(const ExpertsJob& job) {
  return kMaxGemvPairsPerExpert * job.num_experts;
}

bool same_layout(const ExpertStack& a, const ExpertStack& b) {
  return a.matrix.dtype == b.matrix.dtype && a.matrix_bytes == b.matrix_bytes;
}

// Whether the rows beyond the gemv limit run in gemm_experts_silu_mma and gemm_experts_mma.
bool uses_mma(const ExpertsJob& job) {
  return job.epilogue.is_plain() && job.arithmetic == Arithmetic::F16 &&
         job.gate.matrix.dtype == DType::F16 && job.down.matrix.dtype == DType::F16 &&
         same_layout(job.gate, job.up) && can_use_gemm_mma(job.hidden) &&
         can_use_gemm_mma(job.intermediate) && has_gemm_mma();
}

// With memory null only Scratch::bytes is valid.
Scratch scratch_at(const ExpertsJob& job, std::int64_t rows, void* memory) {
  const std::int64_t pairs = rows * job.top_k;
  ScratchAllocator allocator(memory);
  Scratch s;
  const auto floats = [](std::int64_t count) {
    return static_cast<std::size_t>(count) * sizeof(float);
  };
  const std::int64_t gemv_rows =
      std::min(rows, std::max(kMaxPairwiseTokens, max_gemv_pairs(job) / job.top_k));
  const std::int64_t inner_rows =
      uses_mma(job) ? std::max(pairs, 2 * gemv_rows * job.top_k) : 2 * pairs;
  s.inner = static_cast<float*>(allocator.allocate(floats(inner_rows * job.intermediate)));
  s.results = static_cast<float*>(allocator.allocate(floats(pairs * job.hidden)));
  // Int8 rows are used by the gemv kernels only, F16 rows by the gemm kernels only.
  std::size_t converted_bytes = std::max(q8_rows_bytes(gemv_rows, job.hidden),
                                         q8_rows_bytes(gemv_rows * job.top_k, job.intermediate));
  if (rows > gemv_rows && job.arithmetic == Arithmetic::F16) {
    converted_bytes = std::max({converted_bytes, half_rows_bytes(rows, job.hidden),
                                half_rows_bytes(pairs, job.intermediate)});
  }
  s.converted = allocator.allocate(converted_bytes);
  s.groups.counts = static_cast<std::int32_t*>(allocator.allocate(floats(job.num_experts)));
  s.groups.order = static_cast<std::int32_t*>(allocator.allocate(floats(pairs)));
  const std::int64_t gemv_tiles =
      max_row_tiles(gemv_rows * job.top_k, job.num_experts, kGemvTileRows);
  const std::int64_t tiles = max_row_tiles(pairs, job.num_experts, kGemmTileRows);
  s.groups.tiles = static_cast<RowTile*>(
      allocator.allocate(static_cast<std::size_t>(std::max(gemv_tiles, tiles)) * sizeof(RowTile)));
  s.bytes = allocator.used();
  return s;
}

LinearBatch products_with(const ExpertStack& stack, std::int64_t out) {
  return {.stack = stack.matrix, .out = out, .matrix_bytes = stack.matrix_bytes};
}

// Computes gate and up with `multiply`, in one launch when the stacks have the same layout.
template <class Multiply>
void gate_and_up(const ExpertsJob& job,
                 LinearBatch gate,
                 std::int64_t pairs,
                 const Multiply& multiply) {
  if (same_layout(job.gate, job.up)) {
    gate.second = job.up.matrix.data;
    gate.second_scales = job.up.matrix.scales;
    multiply(gate);
    return;
  }
  LinearBatch up = gate;
  up.stack = job.up.matrix;
  up.matrix_bytes = job.up.matrix_bytes;
  up.y.data += pairs * job.intermediate;
  multiply(gate);
  multiply(up);
}

bool uses_q8(const ExpertsJob& job, DType dtype) {
  return job.use_int8 && has_gemv_q8(dtype);
}

// A pair without expert, or whose expert has no slot, is skipped: sum_pairs() does not read it.
PairExperts experts_of(const ExpertsJob& job, const RoutedRows& routed) {
  return {.ids = routed.bias_ids == nullptr ? routed.expert_ids : routed.bias_ids,
          .pairs = routed.rows * job.top_k};
}

// inner = activation(gate, up); quantized to int8 when the down product uses gemv_q8.
void activate(const ExpertsJob& job,
              const RoutedRows& routed,
              const Scratch& s,
              bool use_gemv,
              Stream stream) {
  const std::int64_t pairs = routed.rows * job.top_k;
  const ConstRows gate = {s.inner, job.intermediate};
  const ConstRows up = {s.inner + pairs * job.intermediate, job.intermediate};
  const bool is_quantized = use_gemv && uses_q8(job, job.down.matrix.dtype);
  if (!job.epilogue.is_plain()) {
    activate_pairs(job.epilogue, experts_of(job, routed), gate, up, {s.inner, job.intermediate},
                   job.intermediate, stream);
    if (is_quantized) {
      quantize_rows(gate, q8_rows_at(s.converted, pairs, job.intermediate), pairs, job.intermediate,
                    stream);
    }
    return;
  }
  if (is_quantized) {
    silu_mul_q8(gate, up, q8_rows_at(s.converted, pairs, job.intermediate), pairs, job.intermediate,
                stream);
    return;
  }
  silu_mul(gate, up, {s.inner, job.intermediate}, pairs, job.intermediate, stream);
}

// The rows of products.x quantized to int8. activate() has already quantized those of the down
// product.
Q8Rows q8_rows_of(const LinearBatch& products,
                  ConstRows x,
                  const Scratch& s,
                  std::int64_t x_rows,
                  Stream stream) {
  const Q8Rows q8 = q8_rows_at(s.converted, x_rows, products.stack.cols);
  if (products.x.data == s.inner) return q8;
  if (s.x_q8 != nullptr) return *s.x_q8;
  quantize_rows(x, q8, x_rows, products.stack.cols, stream);
  return q8;
}

// One gemv per pair; int8 activations where enabled and supported.
void multiply_per_pair(const ExpertsJob& job,
                       const LinearBatch& products,
                       const Scratch& s,
                       std::int64_t x_rows,
                       Stream stream) {
  if (!uses_q8(job, products.stack.dtype)) {
    gemv(products, stream);
    return;
  }
  const Q8Rows q8 =
      q8_rows_of(products, {products.x.data, products.x_batch_stride}, s, x_rows, stream);
  LinearBatch q8_products = products;
  q8_products.x_batch_stride = products.stack.cols;  // the int8 rows are contiguous
  gemv_q8(q8_products, q8, stream);
}

void run_per_pair(const ExpertsJob& job,
                  const RoutedRows& routed,
                  const Scratch& s,
                  Stream stream) {
  const std::int64_t pairs = routed.rows * job.top_k;
  LinearBatch gate = products_with(job.gate, job.intermediate);
  gate.batch = pairs;
  gate.matrix_ids = routed.expert_ids;
  gate.x = routed.x;
  gate.x_batch_stride = routed.x.stride;
  gate.products_per_x = job.top_k;
  gate.y = {s.inner, job.intermediate};
  gate.y_batch_stride = job.intermediate;
  gate_and_up(job, gate, pairs, [&](const LinearBatch& products) {
    multiply_per_pair(job, products, s, routed.rows, stream);
  });
  activate(job, routed, s, true, stream);
  LinearBatch down = products_with(job.down, job.hidden);
  down.batch = pairs;
  down.matrix_ids = routed.expert_ids;
  down.x = {s.inner, job.intermediate};
  down.x_batch_stride = job.intermediate;
  down.y = {s.results, job.hidden};
  down.y_batch_stride = job.hidden;
  multiply_per_pair(job, down, s, pairs, stream);
}

// The rows of each expert in tiles of 8 (gemv) or 64 (gemm).
void multiply_per_expert(const ExpertsJob& job,
                         const LinearBatch& products,
                         const RowTiles& tiles,
                         const Scratch& s,
                         std::int64_t x_rows,
                         bool use_gemv,
                         Stream stream) {
  const std::int64_t in = products.stack.cols;
  if (!use_gemv && job.arithmetic == Arithmetic::F16 && has_gemm_f16()) {
    const F16Rows f16 = half_rows_at(s.converted, x_rows, in);
    to_half_rows(products.x, f16, x_rows, in, stream);
    gemm_experts_f16(products, tiles, f16, stream);
  } else if (!use_gemv) {
    gemm_experts(products, tiles, stream);
  } else if (uses_q8(job, products.stack.dtype)) {
    const Q8Rows q8 = q8_rows_of(products, products.x, s, x_rows, stream);
    gemv_q8_experts(products, tiles, q8, stream);
  } else {
    gemv_experts(products, tiles, stream);
  }
}

// Sorts the pairs by expert and cuts them into tiles.
RowTiles group_rows(const ExpertsJob& job,
                    const RoutedRows& routed,
                    const Scratch& s,
                    std::int64_t tile_rows,
                    Stream stream) {
  const std::int64_t pairs = routed.rows * job.top_k;
  group_pairs(routed.expert_ids, pairs, job.num_experts, tile_rows, s.groups, stream);
  return {.tiles = s.groups.tiles,
          .count = max_row_tiles(pairs, job.num_experts, tile_rows),
          .row_ids = s.groups.order};
}

// F16 weights in tiles of 128 rows; silu(gate) * up in one launch.
void run_per_expert_mma(const ExpertsJob& job,
                        const RoutedRows& routed,
                        const Scratch& s,
                        Stream stream) {
  const std::int64_t pairs = routed.rows * job.top_k;
  const RowTiles tiles = group_rows(job, routed, s, kMmaTileRows, stream);
  LinearBatch gate = products_with(job.gate, job.intermediate);
  gate.second = job.up.matrix.data;
  gate.products_per_x = job.top_k;
  gate.y = {s.inner, job.intermediate};
  const F16Rows x = half_rows_at(s.converted, routed.rows, job.hidden);
  to_half_rows(routed.x, x, routed.rows, job.hidden, stream);
  gemm_experts_silu_mma(gate, tiles, x, stream);
  LinearBatch down = products_with(job.down, job.hidden);
  down.y = {s.results, job.hidden};
  const F16Rows inner = half_rows_at(s.converted, pairs, job.intermediate);
  to_half_rows({s.inner, job.intermediate}, inner, pairs, job.intermediate, stream);
  gemm_experts_mma(down, tiles, inner, stream);
}

void run_per_expert(const ExpertsJob& job,
                    const RoutedRows& routed,
                    const Scratch& s,
                    Stream stream) {
  const std::int64_t pairs = routed.rows * job.top_k;
  const bool use_gemv = pairs <= max_gemv_pairs(job);
  const RowTiles tiles =
      group_rows(job, routed, s, use_gemv ? kGemvTileRows : kGemmTileRows, stream);
  LinearBatch gate = products_with(job.gate, job.intermediate);
  gate.x = routed.x;
  gate.products_per_x = job.top_k;
  gate.y = {s.inner, job.intermediate};
  gate.y_batch_stride = pairs * job.intermediate;
  gate_and_up(job, gate, pairs, [&](const LinearBatch& products) {
    multiply_per_expert(job, products, tiles, s, routed.rows, use_gemv, stream);
  });
  activate(job, routed, s, use_gemv, stream);
  LinearBatch down = products_with(job.down, job.hidden);
  down.x = {s.inner, job.intermediate};
  down.y = {s.results, job.hidden};
  multiply_per_expert(job, down, tiles, s, pairs, use_gemv, stream);
}

}  // namespace

std::size_t experts_bytes(const ExpertsJob& job, std::int64_t rows) {
  return scratch_at(job, rows, nullptr).bytes;
}

void experts(const ExpertsJob& job, const RoutedRows& routed, void* scratch, Stream stream) {
  if (routed.rows == 0) return;
  Scratch s = scratch_at(job, routed.rows, scratch);
  s.x_q8 = routed.x_q8;
  if (routed.rows <= kMaxPairwiseTokens) {
    run_per_pair(job, routed, s, stream);
  } else if (routed.rows * job.top_k > max_gemv_pairs(job) && uses_mma(job)) {
    run_per_expert_mma(job, routed, s, stream);
  } else {
    run_per_expert(job, routed, s, stream);
  }
  add_down_bias(job.epilogue, experts_of(job, routed), {s.results, job.hidden}, job.hidden, stream);
  sum_pairs(routed, s.results, job.top_k, job.hidden, stream);
}

void sum_pairs(const RoutedRows& routed,
               const float* results,
               std::int64_t top_k,
               std::int64_t hidden,
               Stream stream) {
  const dim3 grid(static_cast<unsigned>(routed.rows), blocks_for(hidden, kThreads));
  launch("sum_pairs", sum_pairs_kernel, {grid, kThreads}, stream, routed, results, top_k, hidden);
}

}  // namespace graft::kernels::cuda
