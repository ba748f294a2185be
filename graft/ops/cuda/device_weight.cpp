#include "graft/ops/cuda/device_weight.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include "graft/base/error.h"
#include "graft/base/text/str.h"
#include "graft/kernels/cuda/formats/pack_panels.h"
#include "graft/ops/cuda/runtime/runtime.h"
#include "graft/packing/panel_layout.h"

namespace graft::ops::cuda {
namespace {

// Large enough for the full PCIe bandwidth, small beside the weights.
constexpr std::size_t kBufferBytes = std::size_t{16} << 20;
// The alignment of the kernels' vector loads.
constexpr std::size_t kAlignment = 16;

kernels::cuda::Scales scales_of(const quant::ScaleLayout& layout, const float* values) {
  return {.values = values,
          .matrix_rows = layout.matrix_rows,
          .tile_rows = layout.tile_rows,
          .tile_cols = layout.tile_cols,
          .scale_cols = layout.scale_cols};
}

// The scales of all matrices of a stack, concatenated.
std::vector<float> all_scales(std::span<const Weight> stack) {
  std::vector<float> values;
  for (const Weight& weight : stack)
    values.insert(values.end(), weight.scale->values.begin(), weight.scale->values.end());
  return values;
}

Buffer upload_bytes(std::span<const std::byte> values, Device device, WeightProvider& provider) {
  Buffer buffer(std::max(values.size(), sizeof(float)), device);
  const std::shared_ptr<Uploader> uploader = Uploader::of(device, provider);
  uploader->upload(values, buffer.data());
  uploader->finish();
  return buffer;
}

void check_equal(std::span<const Weight> stack) {
  const Weight& first = stack.front();
  for (const Weight& weight : stack) {
    const bool is_equal = weight.dtype == first.dtype && weight.rows() == first.rows() &&
                          weight.cols() == first.cols() &&
                          (weight.scale == nullptr) == (first.scale == nullptr);
    if (!is_equal) {
      fail(weight.name, ": is ", name(weight.dtype), ", ", first.name, " is ", name(first.dtype),
           "; the experts of a layer on a GPU must have one type");
    }
  }
}

}  // namespace

struct Uploader::State {
  explicit State(Device where) : device(where), stream(where.index) {
    for (Buffer& buffer : buffers)
      buffer = Buffer::staging(kBufferBytes, where);
  }

  Device device;
  CudaStream stream;
  std::array<Buffer, 2> buffers;
  std::array<CudaEvent, 2> sent;
  std::size_t next = 0;
  Buffer stored;  // on the GPU: rows to pack
};

std::shared_ptr<Uploader> Uploader::of(Device device, WeightProvider& weights) {
  std::shared_ptr<void>& kept = weights.kept_while_loading(str("uploader of ", to_string(device)));
  if (kept == nullptr) kept = std::make_shared<Uploader>(device);
  return std::static_pointer_cast<Uploader>(kept);
}

Uploader::Uploader(Device device) : state_(std::make_unique<State>(device)) {}
Uploader::~Uploader() = default;

void Uploader::upload(std::span<const std::byte> from, std::byte* to) {
  use_gpu(state_->device.index);
  while (!from.empty()) {
    const std::size_t bytes = std::min(from.size(), kBufferBytes);
    const std::size_t slot = state_->next++ % state_->buffers.size();
    state_->sent[slot].wait();
    std::memcpy(state_->buffers[slot].data(), from.data(), bytes);
    check_cuda(cudaMemcpyAsync(to, state_->buffers[slot].data(), bytes, cudaMemcpyHostToDevice,
                               state_->stream.get()),
               "copying weights to the GPU");
    state_->sent[slot].record(state_->stream);
    from = from.subspan(bytes);
    to += bytes;
  }
}

void Uploader::upload_panels(const Weight& weight, std::byte* panels) {
  // Both the copies and the kernel are on one stream, so the rows of a piece are packed before the
  // next overwrites them.
  const std::size_t strip = weight.row_bytes() * static_cast<std::size_t>(packing::kPanelRows);
  const std::size_t piece = std::max(kBufferBytes / strip, std::size_t{1}) * strip;
  if (state_->stored.size() < piece) {
    finish();
    state_->stored = Buffer(piece, state_->device);
  }
  const std::size_t bytes = weight.row_bytes() * static_cast<std::size_t>(weight.rows());
  for (std::size_t first = 0; first < bytes; first += piece) {
    const std::span<const std::byte> rows(weight.data + first, std::min(piece, bytes - first));
    upload(rows, state_->stored.data());
    const auto first_row = static_cast<std::int64_t>(first / weight.row_bytes());
    kernels::cuda::pack_panels(
        weight.dtype, state_->stored.data(),
        static_cast<std::int64_t>(rows.size() / weight.row_bytes()), weight.cols(),
        panels + packing::packed_bytes(weight.dtype, first_row, weight.cols()),
        state_->stream.get());
  }
}

void Uploader::finish() {
  state_->stream.wait();
}

DeviceWeight::DeviceWeight(std::span<const Weight> stack,
                           Device device,
                           WeightProvider& provider,
                           kernels::cuda::Layout layout) {
  check_equal(stack);
  const Weight& first = stack.front();
  const std::size_t bytes = first.row_bytes() * static_cast<std::size_t>(first.rows());
  const bool is_panels = layout == kernels::cuda::Layout::Panels;
  const auto panel_bytes =
      is_panels ? packing::packed_bytes(first.dtype, first.rows(), first.cols()) : 0;
  matrix_bytes_ = is_panels ? static_cast<std::size_t>(panel_bytes)
                            : (bytes + kAlignment - 1) / kAlignment * kAlignment;
  memory_ = Buffer(matrix_bytes_ * stack.size(), device);
  const std::shared_ptr<Uploader> uploader = Uploader::of(device, provider);
  for (std::size_t i = 0; i < stack.size(); ++i) {
    std::byte* to = memory_.data() + i * matrix_bytes_;
    if (is_panels) {
      uploader->upload_panels(stack[i], to);
    } else {
      uploader->upload({stack[i].data, bytes}, to);
    }
  }
  uploader->finish();
  matrix_ = {.dtype = first.dtype,
             .data = memory_.data(),
             .rows = first.rows() * static_cast<std::int64_t>(stack.size()),
             .cols = first.cols(),
             .layout = layout};
  if (first.scale == nullptr) return;
  scales_ = upload_floats(all_scales(stack), device, provider);
  matrix_.scales = scales_of(first.scale->layout, reinterpret_cast<const float*>(scales_.data()));
}

Buffer upload_floats(std::span<const float> values, Device device, WeightProvider& provider) {
  return upload_bytes(std::as_bytes(values), device, provider);
}

Buffer upload_indices(std::span<const std::int32_t> values,
                      Device device,
                      WeightProvider& provider) {
  return upload_bytes(std::as_bytes(values), device, provider);
}

bool is_cuda_weight(DType dtype) {
  return kernels::cuda::can_decode(dtype);
}

}  // namespace graft::ops::cuda
