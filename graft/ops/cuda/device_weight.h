// Weights in GPU memory, in the byte layout of the file or packed into panels.

#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "graft/kernels/cuda/formats/decode.h"
#include "graft/ops/weight.h"
#include "graft/tensor/buffer.h"

namespace graft::ops::cuda {

// Copies pageable host memory, such as a mapped file, to a GPU through two pinned buffers: while
// one is copied, the next is filled. One upload at a time.
class Uploader {
 public:
  // The uploader of a GPU, shared by all weights of a load. WeightProvider keeps it and its pinned
  // memory until the load ends.
  static std::shared_ptr<Uploader> of(Device device, WeightProvider& weights);

  explicit Uploader(Device device);
  Uploader(const Uploader&) = delete;
  Uploader& operator=(const Uploader&) = delete;
  ~Uploader();

  void upload(std::span<const std::byte> from, std::byte* to);
  // Packs the rows of a weight into panels on the GPU.
  void upload_panels(const Weight& weight, std::byte* panels);
  void finish();  // waits for all uploads

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// One matrix, or a stack of matrices of equal shape (experts, heads).
class DeviceWeight {
 public:
  DeviceWeight() = default;
  // Throws Error when the weights of a stack are not of one type and shape.
  DeviceWeight(std::span<const Weight> stack,
               Device device,
               WeightProvider& provider,
               kernels::cuda::Layout layout = kernels::cuda::Layout::Rows);
  DeviceWeight(const Weight& weight,
               Device device,
               WeightProvider& provider,
               kernels::cuda::Layout layout = kernels::cuda::Layout::Rows)
      : DeviceWeight(std::span(&weight, 1), device, provider, layout) {}

  bool empty() const { return memory_.size() == 0; }
  // The whole stack; `rows` is the total over all matrices.
  const kernels::cuda::Matrix& matrix() const { return matrix_; }
  std::size_t matrix_bytes() const { return matrix_bytes_; }

 private:
  Buffer memory_;
  Buffer scales_;
  kernels::cuda::Matrix matrix_;
  std::size_t matrix_bytes_ = 0;
};

// A copy of host floats on a GPU.
Buffer upload_floats(std::span<const float> values, Device device, WeightProvider& provider);

Buffer upload_indices(std::span<const std::int32_t> values,
                      Device device,
                      WeightProvider& provider);

// Whether the GPU kernels have a decoder for the type.
bool is_cuda_weight(DType dtype);

}  // namespace graft::ops::cuda
