#include "graft/ops/cuda/device_weight.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include "graft/base/error.h"
#include "graft/ops/cuda/runtime.h"

namespace graft::ops::cuda {
namespace {

// Large enough that a copy goes at the speed of the bus, small enough to be memory nobody misses.
constexpr std::size_t kPartBytes = std::size_t{16} << 20;
// Vector loads of the kernels may begin here.
constexpr std::size_t kAlignment = 16;

kernels::cuda::Scales scales_of(const quant::ScaleLayout& layout, const float* values) {
  return {.values = values,
          .matrix_rows = layout.matrix_rows,
          .tile_rows = layout.tile_rows,
          .tile_cols = layout.tile_cols,
          .scale_cols = layout.scale_cols};
}

// The scales of a stack, one matrix's after the other's.
std::vector<float> all_scales(std::span<const Weight> stack) {
  std::vector<float> values;
  for (const Weight& weight : stack)
    values.insert(values.end(), weight.scale->values.begin(), weight.scale->values.end());
  return values;
}

void check_equal(std::span<const Weight> stack) {
  const Weight& first = stack.front();
  for (const Weight& weight : stack) {
    const bool is_equal = weight.dtype == first.dtype && weight.rows() == first.rows() &&
                          weight.cols() == first.cols() &&
                          (weight.scale == nullptr) == (first.scale == nullptr);
    if (!is_equal) {
      fail(weight.name, ": is ", name(weight.dtype), ", ", first.name, " is ", name(first.dtype),
           "; experts of one layer on a GPU are of one type");
    }
  }
}

}  // namespace

struct Uploader::State {
  explicit State(Device where) : device(where), stream(where.index) {
    for (Buffer& part : parts)
      part = Buffer::staging(kPartBytes, where);
  }

  Device device;
  CudaStream stream;
  std::array<Buffer, 2> parts;
  std::array<CudaEvent, 2> sent;
  std::size_t next = 0;
};

Uploader::Uploader(Device device) : state_(std::make_unique<State>(device)) {}
Uploader::~Uploader() = default;

void Uploader::upload(std::span<const std::byte> from, std::byte* to) {
  use_gpu(state_->device.index);
  while (!from.empty()) {
    const std::size_t bytes = std::min(from.size(), kPartBytes);
    const std::size_t part = state_->next++ % state_->parts.size();
    state_->sent[part].wait();
    std::memcpy(state_->parts[part].data(), from.data(), bytes);
    check_cuda(cudaMemcpyAsync(to, state_->parts[part].data(), bytes, cudaMemcpyHostToDevice,
                               state_->stream.get()),
               "copying weights to the GPU");
    state_->sent[part].record(state_->stream);
    from = from.subspan(bytes);
    to += bytes;
  }
}

void Uploader::finish() {
  state_->stream.wait();
}

DeviceWeight::DeviceWeight(std::span<const Weight> stack, Device device) {
  check_equal(stack);
  const Weight& first = stack.front();
  const std::size_t bytes = first.row_bytes() * static_cast<std::size_t>(first.rows());
  matrix_bytes_ = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  memory_ = Buffer(matrix_bytes_ * stack.size(), device);
  Uploader uploader(device);
  for (std::size_t i = 0; i < stack.size(); ++i)
    uploader.upload({stack[i].data, bytes}, memory_.data() + i * matrix_bytes_);
  uploader.finish();
  matrix_ = {.dtype = first.dtype,
             .data = memory_.data(),
             .rows = first.rows() * static_cast<std::int64_t>(stack.size()),
             .cols = first.cols()};
  if (first.scale == nullptr) return;
  scales_ = upload_floats(all_scales(stack), device);
  matrix_.scales = scales_of(first.scale->layout, reinterpret_cast<const float*>(scales_.data()));
}

Buffer upload_floats(std::span<const float> values, Device device) {
  Buffer buffer(std::max(values.size_bytes(), sizeof(float)), device);
  Uploader uploader(device);
  uploader.upload(std::as_bytes(values), buffer.data());
  uploader.finish();
  return buffer;
}

bool is_cuda_weight(DType dtype) {
  return kernels::cuda::can_decode(dtype);
}

}  // namespace graft::ops::cuda
