// Adapters of a layer on a GPU.

#include "graft/ops/lora.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include <cuda_runtime_api.h>

#include "graft/base/check.h"
#include "graft/kernels/cuda/linear/lora.h"
#include "graft/ops/cuda/operators.h"
#include "graft/ops/cuda/runtime/cuda_context.h"
#include "graft/ops/cuda/runtime/runtime.h"
#include "graft/tensor/buffer.h"

namespace graft::ops::cuda {
namespace {

Buffer upload_matrix(const std::vector<float>& values, Device device) {
  Buffer buffer(values.size() * sizeof(float), device);
  copy_in_order(device.index, buffer.data(), values.data(), buffer.size(), cudaMemcpyHostToDevice);
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
    const TensorView low = pass.workspace.f32({num_rows * size_.heads, max_rank_});
    kernels::cuda::add_lora(
        {.entries = reinterpret_cast<const kernels::cuda::LoraEntry*>(table_.data()),
         .adapters = gpu.adapters(pass.lora->are_logit_rows) + first_row,
         .rows = num_rows,
         .heads = size_.heads,
         .in = size_.in,
         .out = size_.out,
         .max_rank = max_rank_},
        {x.data, x.row_stride, x.head_stride}, {y.data, y.row_stride, y.head_stride}, low.f32(),
        gpu.stream());
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
    std::vector<float> a = matrices.a;
    for (float& value : a)
      value *= matrices.scale;
    std::vector<float> b(matrices.b.size());
    for (std::int64_t head = 0; head < b_heads; ++head) {
      for (std::int64_t out = 0; out < size_.out; ++out) {
        for (std::int64_t i = 0; i < matrices.rank; ++i) {
          b[static_cast<std::size_t>(head * b_elems + i * size_.out + out)] =
              matrices.b[static_cast<std::size_t>(head * b_elems + out * matrices.rank + i)];
        }
      }
    }
    Memory memory = {.a = upload_matrix(a, device_), .b = upload_matrix(b, device_)};
    entries_[static_cast<std::size_t>(adapter)] = {
        .a = reinterpret_cast<const float*>(memory.a.data()),
        .b = reinterpret_cast<const float*>(memory.b.data()),
        .a_head_elems = a_heads > 1 ? a_elems : 0,
        .b_head_elems = b_heads > 1 ? b_elems : 0,
        .rank = matrices.rank};
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

std::unique_ptr<LoraLayer> make_lora_layer(Device device, const LoraSize& size) {
  return std::make_unique<LoraLayerCuda>(device, size);
}

}  // namespace graft::ops::cuda
