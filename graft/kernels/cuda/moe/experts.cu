#include "graft/kernels/cuda/moe/experts.h"

#include <algorithm>

#include "graft/kernels/cuda/elementwise.h"
#include "graft/kernels/cuda/launch.cuh"

namespace graft::kernels::cuda {
namespace {

constexpr int kThreads = 128;

// A thread per value of a token: its experts one after the other. A pair without expert adds
// nothing, whatever its row holds.
__global__ void sum_pairs_kernel(RoutedRows routed,
                                 const float* rows,
                                 std::int64_t top_k,
                                 std::int64_t hidden) {
  constexpr int kAtOnce = 8;  // loads under way
  const std::int64_t token = blockIdx.x;
  const std::int64_t col = static_cast<std::int64_t>(blockIdx.y) * blockDim.x + threadIdx.x;
  if (col >= hidden) return;
  float sum = 0.0F;
  for (std::int64_t begin = 0; begin < top_k; begin += kAtOnce) {
    float values[kAtOnce];
    float weights[kAtOnce];
    bool is_there[kAtOnce];
    GRAFT_UNROLL
    for (int i = 0; i < kAtOnce; ++i) {
      const std::int64_t pair = token * top_k + begin + i;
      const bool is_inside = begin + i < top_k;
      is_there[i] = is_inside && routed.expert_ids[pair] >= 0;
      values[i] = is_inside ? rows[pair * hidden + col] : 0.0F;
      weights[i] = is_inside ? routed.weights[pair] : 0.0F;
    }
    GRAFT_UNROLL
    for (int i = 0; i < kAtOnce; ++i)
      if (is_there[i]) sum = __fadd_rn(sum, __fmul_rn(weights[i], values[i]));
  }
  routed.y.data[token * routed.y.stride + col] = sum;
}

// Parts of the scratch memory. Sizes: p = pairs.
struct Scratch {
  float* inner = nullptr;    // [2, p, intermediate]: gate, up; then their product over the gate
  float* results = nullptr;  // [p, hidden]
  void* rounded = nullptr;   // x, then inner: Q8Rows or HalfRows
  PairGroups groups;
  std::size_t bytes = 0;
  const Q8Rows* x_bytes = nullptr;  // the caller's; null: none
};

class Carver {
 public:
  explicit Carver(void* memory) : memory_(static_cast<std::byte*>(memory)) {}

  void* take(std::size_t bytes) {
    std::byte* taken = memory_ == nullptr ? nullptr : memory_ + used_;
    used_ += aligned_bytes(bytes);
    return taken;
  }
  std::size_t used() const { return used_; }

 private:
  std::byte* memory_;
  std::size_t used_ = 0;
};

std::int64_t max_few_pairs(const ExpertsJob& job) {
  return kFewPairsPerExpert * job.num_experts;
}

// With memory null only the size is right.
Scratch scratch_at(const ExpertsJob& job, std::int64_t rows, void* memory) {
  const std::int64_t pairs = rows * job.top_k;
  Carver carver(memory);
  Scratch s;
  const auto floats = [](std::int64_t count) {
    return static_cast<std::size_t>(count) * sizeof(float);
  };
  s.inner = static_cast<float*>(carver.take(floats(2 * pairs * job.intermediate)));
  s.results = static_cast<float*>(carver.take(floats(pairs * job.hidden)));
  // Only few rows are rounded to bytes, and only many to F16.
  const std::int64_t few = std::min(rows, std::max(kFewTokens, max_few_pairs(job) / job.top_k));
  std::size_t rounded_bytes =
      std::max(q8_rows_bytes(few, job.hidden), q8_rows_bytes(few * job.top_k, job.intermediate));
  if (rows > few && job.arithmetic == Arithmetic::F16) {
    rounded_bytes = std::max({rounded_bytes, half_rows_bytes(rows, job.hidden),
                              half_rows_bytes(pairs, job.intermediate)});
  }
  s.rounded = carver.take(rounded_bytes);
  s.groups.counts = static_cast<std::int32_t*>(carver.take(floats(job.num_experts)));
  s.groups.order = static_cast<std::int32_t*>(carver.take(floats(pairs)));
  const std::int64_t few_tiles = max_row_tiles(few * job.top_k, job.num_experts, kGemvTileRows);
  const std::int64_t tiles = max_row_tiles(pairs, job.num_experts, kGemmTileRows);
  s.groups.tiles = static_cast<RowTile*>(
      carver.take(static_cast<std::size_t>(std::max(few_tiles, tiles)) * sizeof(RowTile)));
  s.bytes = carver.used();
  return s;
}

LinearBatch products_with(const ExpertStack& stack, std::int64_t out) {
  return {.stack = stack.matrix, .out = out, .matrix_bytes = stack.matrix_bytes};
}

bool same_form(const ExpertStack& a, const ExpertStack& b) {
  return a.matrix.dtype == b.matrix.dtype && a.matrix_bytes == b.matrix_bytes;
}

// gate and up by `multiply`, in one launch where they have the same form.
template <class Multiply>
void gate_and_up(const ExpertsJob& job,
                 LinearBatch gate,
                 std::int64_t pairs,
                 const Multiply& multiply) {
  if (same_form(job.gate, job.up)) {
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

bool is_rounded(const ExpertsJob& job, DType dtype) {
  return job.whole_numbers && has_linear_q8(dtype);
}

// Where the down matrices want bytes, and `few` rows of them, the product is rounded at once.
void activate(
    const ExpertsJob& job, const Scratch& s, std::int64_t pairs, bool few, Stream stream) {
  const ConstRows gate = {s.inner, job.intermediate};
  const ConstRows up = {s.inner + pairs * job.intermediate, job.intermediate};
  if (few && is_rounded(job, job.down.matrix.dtype)) {
    silu_mul_q8(gate, up, q8_rows_at(s.rounded, pairs, job.intermediate), pairs, job.intermediate,
                stream);
    return;
  }
  silu_mul(gate, up, {s.inner, job.intermediate}, pairs, job.intermediate, stream);
}

// The rows that products.x describes as bytes. Those of the down matrices were made by activate().
Q8Rows bytes_of(const LinearBatch& products,
                ConstRows x,
                const Scratch& s,
                std::int64_t x_rows,
                Stream stream) {
  const Q8Rows q8 = q8_rows_at(s.rounded, x_rows, products.stack.cols);
  if (products.x.data == s.inner) return q8;
  if (s.x_bytes != nullptr) return *s.x_bytes;
  quantize_rows(x, q8, x_rows, products.stack.cols, stream);
  return q8;
}

// One product per pair; x rounded to bytes where that is wanted and possible.
void multiply_pairs(const ExpertsJob& job,
                    const LinearBatch& products,
                    const Scratch& s,
                    std::int64_t x_rows,
                    Stream stream) {
  if (!is_rounded(job, products.stack.dtype)) {
    gemv(products, stream);
    return;
  }
  const Q8Rows q8 =
      bytes_of(products, {products.x.data, products.x_batch_stride}, s, x_rows, stream);
  LinearBatch rounded = products;
  rounded.x_batch_stride = products.stack.cols;  // the rounded rows stand together
  gemv_q8(rounded, q8, stream);
}

void by_pairs(const ExpertsJob& job, const RoutedRows& routed, const Scratch& s, Stream stream) {
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
    multiply_pairs(job, products, s, routed.rows, stream);
  });
  activate(job, s, pairs, true, stream);
  LinearBatch down = products_with(job.down, job.hidden);
  down.batch = pairs;
  down.matrix_ids = routed.expert_ids;
  down.x = {s.inner, job.intermediate};
  down.x_batch_stride = job.intermediate;
  down.y = {s.results, job.hidden};
  down.y_batch_stride = job.hidden;
  multiply_pairs(job, down, s, pairs, stream);
}

// The rows of each expert together: eight at a time, or in tiles.
void multiply_groups(const ExpertsJob& job,
                     const LinearBatch& products,
                     const RowTiles& tiles,
                     const Scratch& s,
                     std::int64_t x_rows,
                     bool few,
                     Stream stream) {
  const std::int64_t in = products.stack.cols;
  if (!few && job.arithmetic == Arithmetic::F16 && has_linear_f16()) {
    const HalfRows half = half_rows_at(s.rounded, x_rows, in);
    to_half_rows(products.x, half, x_rows, in, stream);
    gemm_experts_f16(products, tiles, half, stream);
  } else if (!few) {
    gemm_experts(products, tiles, stream);
  } else if (is_rounded(job, products.stack.dtype)) {
    const Q8Rows q8 = bytes_of(products, products.x, s, x_rows, stream);
    gemv_q8_experts(products, tiles, q8, stream);
  } else {
    gemv_experts(products, tiles, stream);
  }
}

void by_groups(const ExpertsJob& job, const RoutedRows& routed, const Scratch& s, Stream stream) {
  const std::int64_t pairs = routed.rows * job.top_k;
  const bool few = pairs <= max_few_pairs(job);
  const std::int64_t tile_rows = few ? kGemvTileRows : kGemmTileRows;
  group_pairs(routed.expert_ids, pairs, job.num_experts, tile_rows, s.groups, stream);
  const RowTiles tiles = {.tiles = s.groups.tiles,
                          .count = max_row_tiles(pairs, job.num_experts, tile_rows),
                          .row_ids = s.groups.order};
  LinearBatch gate = products_with(job.gate, job.intermediate);
  gate.x = routed.x;
  gate.products_per_x = job.top_k;
  gate.y = {s.inner, job.intermediate};
  gate.y_batch_stride = pairs * job.intermediate;
  gate_and_up(job, gate, pairs, [&](const LinearBatch& products) {
    multiply_groups(job, products, tiles, s, routed.rows, few, stream);
  });
  activate(job, s, pairs, few, stream);
  LinearBatch down = products_with(job.down, job.hidden);
  down.x = {s.inner, job.intermediate};
  down.y = {s.results, job.hidden};
  multiply_groups(job, down, tiles, s, pairs, few, stream);
}

}  // namespace

std::size_t experts_bytes(const ExpertsJob& job, std::int64_t rows) {
  return scratch_at(job, rows, nullptr).bytes;
}

void experts(const ExpertsJob& job, const RoutedRows& routed, void* scratch, Stream stream) {
  if (routed.rows == 0) return;
  Scratch s = scratch_at(job, routed.rows, scratch);
  s.x_bytes = routed.x_bytes;
  if (routed.rows <= kFewTokens) {
    by_pairs(job, routed, s, stream);
  } else {
    by_groups(job, routed, s, stream);
  }
  const dim3 grid(static_cast<unsigned>(routed.rows), blocks_for(job.hidden, kThreads));
  launch("sum_pairs", sum_pairs_kernel, {grid, kThreads}, stream, routed, s.results, job.top_k,
         job.hidden);
}

}  // namespace graft::kernels::cuda
