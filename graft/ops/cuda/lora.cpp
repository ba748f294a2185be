// Adapters of a layer on a GPU, in 16 bits where these hold every value of the matrices.

#include "graft/ops/cuda/lora.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <cuda_fp16.h>
#include <cuda_runtime_api.h>

#include "graft/base/check.h"
#include "graft/kernels/cuda/linear/lora.h"
#include "graft/ops/cuda/operators.h"
#include "graft/ops/cuda/runtime/cuda_context.h"
#include "graft/ops/cuda/runtime/runtime.h"
#include "graft/tensor/buffer.h"

namespace graft::ops::cuda {
namespace {

using kernels::cuda::LoraType;

// BF16, F16 or F32: the smallest one that has all values.
LoraType type_of(const LoraMatrices& matrices) {
  const auto all = [&](auto is_exact) {
    return std::ranges::all_of(matrices.a, is_exact) && std::ranges::all_of(matrices.b, is_exact);
  };
  if (all([](float value) { return (std::bit_cast<std::uint32_t>(value) & 0xffffU) == 0; }))
    return LoraType::BF16;
  const bool is_f16 = all([](float value) { return __half2float(__float2half(value)) == value; });
  return is_f16 ? LoraType::F16 : LoraType::F32;
}

Buffer upload_matrix(const std::vector<float>& values, LoraType type, Device device) {
  std::vector<std::uint16_t> halves;
  if (type != LoraType::F32) {
    halves.resize(values.size());
    std::ranges::transform(values, halves.begin(), [&](float value) {
      return type == LoraType::BF16
                 ? static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16U)
                 : std::bit_cast<std::uint16_t>(__float2half(value));
    });
  }
  const auto bytes =
      type == LoraType::F32 ? std::as_bytes(std::span(values)) : std::as_bytes(std::span(halves));
  Buffer buffer(bytes.size(), device);
  copy_in_order(device.index, buffer.data(), bytes.data(), bytes.size(), cudaMemcpyHostToDevice);
  return buffer;
}

class LoraLayerCuda final : public LoraLayer {
 public:
  LoraLayerCuda(Device device, const LoraSize& size) : device_(device), size_(size) {
    use_gpu(device.index);
    table_ = Buffer(sizeof(entries_), device);
    upload_table();
  }

  void add(const LoraOperand& x,
           const LoraOperand& y,
           std::int64_t first_row,
           std::int64_t num_rows,
           Pass& pass) override {
    if (num_rows == 0) return;
    CudaContext& gpu = cuda_context(device_, pass);
    const Workspace::Scope scope(pass.workspace);
    kernels::cuda::LoraGroup group = {
        .num_jobs = 1,
        .adapters = gpu.adapters(pass.lora->are_logit_rows) + first_row,
        .rows = num_rows,
        .heads = size_.heads,
        .in = size_.in,
        .x = {x.data, x.row_stride, x.head_stride}};
    group.jobs[0] = job({y.data, y.row_stride, y.head_stride}, num_rows, pass);
    kernels::cuda::add_lora(group, gpu.stream());
  }

  // Its scratch memory is in the pass's workspace.
  kernels::cuda::LoraJob job(const kernels::cuda::LoraRowsView& y,
                             std::int64_t num_rows,
                             Pass& pass) const {
    return {.entries = reinterpret_cast<const kernels::cuda::LoraEntry*>(table_.data()),
            .out = size_.out,
            .max_rank = max_rank_,
            .y = y,
            .low = pass.workspace.f32({num_rows * size_.heads, max_rank_}).f32()};
  }

 private:
  struct Memory {
    Buffer a;
    Buffer b;
  };

  void store(std::int32_t adapter, const LoraMatrices& matrices) override {
    use_gpu(device_.index);
    const std::int64_t a_elems = matrices.rank * size_.in;
    const std::int64_t b_elems = matrices.rank * size_.out;
    const std::int64_t a_heads = static_cast<std::int64_t>(matrices.a.size()) / a_elems;
    const std::int64_t b_heads = static_cast<std::int64_t>(matrices.b.size()) / b_elems;
    std::vector<float> b(matrices.b.size());
    for (std::int64_t head = 0; head < b_heads; ++head) {
      for (std::int64_t out = 0; out < size_.out; ++out) {
        for (std::int64_t i = 0; i < matrices.rank; ++i) {
          b[static_cast<std::size_t>(head * b_elems + i * size_.out + out)] =
              matrices.b[static_cast<std::size_t>(head * b_elems + out * matrices.rank + i)];
        }
      }
    }
    const LoraType type = type_of(matrices);
    Memory memory = {.a = upload_matrix(matrices.a, type, device_),
                     .b = upload_matrix(b, type, device_)};
    entries_[static_cast<std::size_t>(adapter)] = {.a = memory.a.data(),
                                                   .b = memory.b.data(),
                                                   .a_head_elems = a_heads > 1 ? a_elems : 0,
                                                   .b_head_elems = b_heads > 1 ? b_elems : 0,
                                                   .rank = matrices.rank,
                                                   .scale = matrices.scale,
                                                   .type = type};
    memory_[static_cast<std::size_t>(adapter)] = std::move(memory);
    upload_table();
  }

  void drop(std::int32_t adapter) override {
    use_gpu(device_.index);
    entries_[static_cast<std::size_t>(adapter)] = {};
    upload_table();
    memory_[static_cast<std::size_t>(adapter)] = {};
  }

  void upload_table() {
    max_rank_ = 0;
    for (const kernels::cuda::LoraEntry& entry : entries_)
      max_rank_ = std::max(max_rank_, entry.rank);
    copy_in_order(device_.index, table_.data(), entries_.data(), sizeof(entries_),
                  cudaMemcpyHostToDevice);
  }

  Device device_;
  LoraSize size_;
  std::array<kernels::cuda::LoraEntry, kMaxAdapters> entries_ = {};
  std::array<Memory, kMaxAdapters> memory_;
  std::int64_t max_rank_ = 0;
  Buffer table_;  // entries_
};

}  // namespace

void add_lora_group(TensorView x, std::span<const LoraAddition> additions, Pass& pass) {
  GRAFT_CHECK(additions.size() <= kernels::cuda::kMaxLoraJobs, additions.size(), " layers");
  if (additions.empty() || x.rows() == 0) return;
  CudaContext& gpu = cuda_context(x.device, pass);
  const Workspace::Scope scope(pass.workspace);
  kernels::cuda::LoraGroup group = {.adapters = gpu.adapters(pass.lora->are_logit_rows),
                                    .rows = x.rows(),
                                    .in = x.cols(),
                                    .x = {x.f32(), x.cols()}};
  for (const LoraAddition& addition : additions) {
    const auto& layer = static_cast<const LoraLayerCuda&>(*addition.layer);
    group.jobs[group.num_jobs++] = layer.job({addition.y.f32(), addition.y.cols()}, x.rows(), pass);
  }
  kernels::cuda::add_lora(group, gpu.stream());
}

std::unique_ptr<LoraLayer> make_lora_layer(Device device, const LoraSize& size) {
  return std::make_unique<LoraLayerCuda>(device, size);
}

}  // namespace graft::ops::cuda
