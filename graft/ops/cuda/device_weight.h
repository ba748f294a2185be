// Weights in memory of a GPU, in the bytes of the file.

#pragma once

#include <memory>
#include <span>
#include <vector>

#include "graft/kernels/cuda/formats/decode.h"
#include "graft/ops/weight.h"
#include "graft/tensor/buffer.h"

namespace graft::ops::cuda {

// Brings bytes of the processor's, such as those of a mapped file, to a GPU: while one part is on
// its way, the next is read. One at a time.
class Uploader {
 public:
  explicit Uploader(Device device);
  Uploader(const Uploader&) = delete;
  Uploader& operator=(const Uploader&) = delete;
  ~Uploader();

  void upload(std::span<const std::byte> from, std::byte* to);
  void finish();  // what was uploaded is there

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// One matrix, or a stack of equal ones (experts, heads).
class DeviceWeight {
 public:
  DeviceWeight() = default;
  // Throws Error when the weights of a stack are not of one type and shape.
  DeviceWeight(std::span<const Weight> stack, Device device);
  DeviceWeight(const Weight& weight, Device device) : DeviceWeight(std::span(&weight, 1), device) {}

  bool empty() const { return memory_.size() == 0; }
  // Of all matrices of the stack; `rows` counts them all.
  const kernels::cuda::Matrix& matrix() const { return matrix_; }
  std::size_t matrix_bytes() const { return matrix_bytes_; }

 private:
  Buffer memory_;
  Buffer scales_;
  kernels::cuda::Matrix matrix_;
  std::size_t matrix_bytes_ = 0;
};

// Floats of the processor's on a GPU.
Buffer upload_floats(std::span<const float> values, Device device);

// Which types the GPU's kernels take.
bool is_cuda_weight(DType dtype);

}  // namespace graft::ops::cuda
