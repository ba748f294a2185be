// Samples from the logits of a pass by parameters that come after it: while the GPU computes the
// logits, the host finds what the tokens may be.

#pragma once

#include <cstdint>
#include <vector>

#include "graft/ops/cuda/runtime/runtime.h"
#include "graft/ops/pass.h"
#include "graft/tensor/buffer.h"
#include "graft/tensor/device.h"
#include "graft/tensor/tensor.h"

namespace graft::ops::cuda {

class LateSampling {
 public:
  explicit LateSampling(Device device) : device_(device) {}

  // In stream order: samples a token from each of the first rows of the logits.
  void run(TensorView logits,
           const BatchSampling& sampling,
           std::int32_t* tokens,
           const CudaStream& stream);

 private:
  void upload(const CudaStream& stream);

  Device device_;
  Buffer scratch_;
  std::vector<std::int32_t> values_;  // the parameters, on the host
  Buffer inputs_;
  Buffer staging_;
  CudaEvent uploaded_;  // after it, staging_ may be overwritten
};

}  // namespace graft::ops::cuda
