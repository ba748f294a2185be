// The tokens that a GPU samples: an array in its memory, which later passes read, and two pinned
// copies on the host, so that one pass can run while the tokens of the pass before are used.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "graft/ops/cuda/runtime/runtime.h"
#include "graft/tensor/buffer.h"
#include "graft/tensor/device.h"

namespace graft::ops::cuda {

class SampledTokens {
 public:
  explicit SampledTokens(Device device) : device_(device) {}

  // In device memory.
  std::int32_t* tokens() const { return reinterpret_cast<std::int32_t*>(tokens_.data()); }
  // Before a pass: makes room. True: the array was replaced, graphs refer to the old one, and
  // earlier tokens are lost.
  bool reserve(std::size_t count, const CudaStream& stream);

  // After the sampling of a pass, in stream order.
  void start_copy(std::int64_t count, const CudaStream& stream);
  // Waits for the oldest copy.
  std::span<const std::int32_t> finish_copy();
  // Waits for all copies; after an error of the GPU they count as finished, too.
  void discard() noexcept;

 private:
  struct Copy {
    Buffer memory;  // pinned
    std::size_t count = 0;
    CudaEvent done;
  };

  Device device_;
  Buffer tokens_;
  std::array<Copy, 2> copies_;
  std::uint64_t num_started_ = 0;
  std::uint64_t num_finished_ = 0;
};

}  // namespace graft::ops::cuda
