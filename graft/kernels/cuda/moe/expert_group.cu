#include "graft/kernels/cuda/moe/expert_group.h"

#include "graft/kernels/cuda/elementwise.h"
#include "graft/kernels/cuda/launch.cuh"

namespace graft::kernels::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kMaxTopK = 64;

struct AddJob {
  const std::int32_t* expert_ids;  // [rows, top_k]
  const float* weights;            // [rows, top_k]
  const float* results;            // [rows * top_k, hidden]
  Rows y;
  std::int32_t first_expert;
  std::int32_t end_expert;
  int top_k;
  std::int64_t hidden;
};

// One block per token and 4 * kThreads columns. The token's experts of this group are added in
// ascending order.
__global__ void __launch_bounds__(kThreads) add_pairs_kernel(AddJob job) {
  begin_kernel();
  __shared__ int order[kMaxTopK];  // entries of the routing list
  __shared__ int count;
  const std::int64_t token = blockIdx.x;
  const std::int32_t* ids = job.expert_ids + token * job.top_k;
  if (threadIdx.x == 0) {
    int n = 0;
    for (int k = 0; k < job.top_k; ++k) {
      if (ids[k] < job.first_expert || ids[k] >= job.end_expert) continue;
      int at = n++;
      for (; at > 0 && ids[order[at - 1]] > ids[k]; --at)
        order[at] = order[at - 1];
      order[at] = k;
    }
    count = n;
  }
  __syncthreads();
  if (count == 0) return;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.y) * kThreads * 4 + threadIdx.x;
  float* y = job.y.data + token * job.y.stride;
  GRAFT_UNROLL
  for (int i = 0; i < 4; ++i) {
    const std::int64_t col = first + i * kThreads;
    if (col >= job.hidden) return;
    float sum = y[col];
    for (int n = 0; n < count; ++n) {
      const std::int64_t pair = token * job.top_k + order[n];
      sum = __fadd_rn(sum, __fmul_rn(job.weights[pair], job.results[pair * job.hidden + col]));
    }
    y[col] = sum;
  }
}

bool uses_mma(const ExpertGroup& group) {
  return group.dtype == DType::F16 && has_gemm_mma() && group.hidden % 8 == 0 &&
         group.intermediate % 8 == 0;
}

bool fuses_activation(const ExpertGroup& group) {
  return uses_mma(group) && group.epilogue.is_plain();
}

PairExperts experts_of(const ExpertGroup& group, const GroupRows& rows) {
  return {.ids = rows.expert_ids,
          .pairs = rows.rows * rows.top_k,
          .first = static_cast<std::int32_t>(group.first_expert),
          .end = static_cast<std::int32_t>(group.first_expert + group.num_experts)};
}

// Arrays in scratch memory, indexed by pair.
struct Scratch {
  // [pairs, intermediate]; gate, then up where the activation is not fused into their products
  float* inner = nullptr;
  float* results = nullptr;  // [pairs, hidden]
  F16Rows inner16;
  std::size_t bytes = 0;
};

Scratch scratch_at(const ExpertGroup& group, std::int64_t num_pairs, void* memory) {
  auto* next = static_cast<std::byte*>(memory);
  std::size_t used = 0;
  const auto take = [&](std::size_t bytes) {
    std::byte* at = next == nullptr ? nullptr : next + used;
    used += aligned_bytes(bytes);
    return at;
  };
  const auto floats = [](std::int64_t count) {
    return static_cast<std::size_t>(count) * sizeof(float);
  };
  Scratch s;
  const std::int64_t num_inner = fuses_activation(group) ? 1 : 2;
  s.inner = reinterpret_cast<float*>(take(floats(num_inner * num_pairs * group.intermediate)));
  s.results = reinterpret_cast<float*>(take(floats(num_pairs * group.hidden)));
  if (group.dtype == DType::F16) {
    s.inner16 = half_rows_at(take(half_rows_bytes(num_pairs, group.intermediate)), num_pairs,
                             group.intermediate);
  }
  s.bytes = used;
  return s;
}

// Where expert 0 of the layer would be: tiles hold expert numbers of the layer.
const void* at_expert_zero(const ExpertGroup& group,
                           const void* matrices,
                           std::size_t matrix_bytes) {
  const std::uintptr_t skipped = static_cast<std::size_t>(group.first_expert) * matrix_bytes;
  return reinterpret_cast<const void*>(reinterpret_cast<std::uintptr_t>(matrices) - skipped);
}

LinearBatch products_with(const ExpertGroup& group,
                          const void* matrices,
                          std::int64_t out,
                          std::int64_t in) {
  LinearBatch products;
  products.stack = {.dtype = group.dtype, .cols = in};
  products.out = out;
  products.matrix_bytes = static_cast<std::size_t>(out) * products.stack.row_bytes();
  products.stack.data = at_expert_zero(group, matrices, products.matrix_bytes);
  return products;
}

// gate and up to the two halves of y.
void multiply_gate_and_up(const ExpertGroup& group,
                          const LinearBatch& gate,
                          const RowTiles& tiles,
                          const F16Rows& x16,
                          Stream stream) {
  if (uses_mma(group)) {
    LinearBatch one = gate;
    one.second = nullptr;
    gemm_experts_mma(one, tiles, x16, stream);
    one.stack.data = gate.second;
    one.y.data += gate.y_batch_stride;
    gemm_experts_mma(one, tiles, x16, stream);
  } else if (group.dtype == DType::F16) {
    gemm_experts_f16(gate, tiles, x16, stream);
  } else {
    gemm_experts(gate, tiles, stream);
  }
}

void gate_and_up(const ExpertGroup& group,
                 const GroupRows& rows,
                 const RowTiles& tiles,
                 const Scratch& s,
                 Stream stream) {
  const std::int64_t num_pairs = rows.rows * rows.top_k;
  LinearBatch gate = products_with(group, group.gate, group.intermediate, group.hidden);
  gate.second = at_expert_zero(group, group.up, gate.matrix_bytes);
  gate.x = rows.x;
  gate.products_per_x = rows.top_k;
  gate.y = {s.inner, group.intermediate};
  gate.y_batch_stride = num_pairs * group.intermediate;
  if (fuses_activation(group)) return gemm_experts_silu_mma(gate, tiles, rows.x16, stream);
  multiply_gate_and_up(group, gate, tiles, rows.x16, stream);
  if (!group.epilogue.is_plain()) {
    return activate_pairs(group.epilogue, experts_of(group, rows), {s.inner, group.intermediate},
                          {s.inner + gate.y_batch_stride, group.intermediate},
                          {s.inner, group.intermediate}, group.intermediate, stream);
  }
  silu_mul({s.inner, group.intermediate}, {s.inner + gate.y_batch_stride, group.intermediate},
           {s.inner, group.intermediate}, num_pairs, group.intermediate, stream);
}

void down(const ExpertGroup& group,
          const GroupRows& rows,
          const RowTiles& tiles,
          const Scratch& s,
          Stream stream) {
  LinearBatch products = products_with(group, group.down, group.hidden, group.intermediate);
  products.x = {s.inner, group.intermediate};
  products.y = {s.results, group.hidden};
  if (group.dtype != DType::F16) return gemm_experts(products, tiles, stream);
  to_half_rows_of(products.x, rows.groups.order + rows.first_pair, s.inner16, rows.num_pairs,
                  group.intermediate, stream);
  if (uses_mma(group)) return gemm_experts_mma(products, tiles, s.inner16, stream);
  gemm_experts_f16(products, tiles, s.inner16, stream);
}

}  // namespace

std::int64_t group_tile_rows(DType dtype) {
  return dtype == DType::F16 && has_gemm_mma() ? kMmaTileRows : kGemmTileRows;
}

std::size_t expert_group_bytes(const ExpertGroup& group, std::int64_t rows, std::int64_t top_k) {
  return scratch_at(group, rows * top_k, nullptr).bytes;
}

void add_expert_group(const ExpertGroup& group,
                      const GroupRows& rows,
                      void* scratch,
                      Stream stream) {
  if (rows.num_tiles == 0) return;
  if (rows.top_k > kMaxTopK) fail("CUDA: ", rows.top_k, " experts per token, at most ", kMaxTopK);
  const Scratch s = scratch_at(group, rows.rows * rows.top_k, scratch);
  const RowTiles tiles = {.tiles = rows.groups.tiles + rows.first_tile,
                          .count = rows.num_tiles,
                          .row_ids = rows.groups.order};
  gate_and_up(group, rows, tiles, s, stream);
  down(group, rows, tiles, s, stream);
  add_down_bias(group.epilogue, experts_of(group, rows), {s.results, group.hidden}, group.hidden,
                stream);
  const AddJob job = {
      .expert_ids = rows.expert_ids,
      .weights = rows.weights,
      .results = s.results,
      .y = rows.y,
      .first_expert = static_cast<std::int32_t>(group.first_expert),
      .end_expert = static_cast<std::int32_t>(group.first_expert + group.num_experts),
      .top_k = static_cast<int>(rows.top_k),
      .hidden = group.hidden};
  const dim3 grid(static_cast<unsigned>(rows.rows), blocks_for(group.hidden, 4 * kThreads));
  launch("add_pairs", add_pairs_kernel, {grid, kThreads}, stream, job);
}

}  // namespace graft::kernels::cuda
