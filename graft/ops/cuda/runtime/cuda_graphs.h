// CUDA graphs of one stream. Host calls inside a graph use flags in pinned memory (HostSignal)
// instead of driver callbacks.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "graft/kernels/cuda/host_signal.h"
#include "graft/ops/cuda/runtime/runtime.h"
#include "graft/ops/devices/device_context.h"

namespace graft::ops::cuda {

class CudaGraph;

class CudaGraphCapture final : public GraphCapture {
 public:
  // `copied_out` is recorded after every replay.
  CudaGraphCapture(Device device, CudaStream& stream, CudaEvent& copied_out)
      : device_(device), stream_(stream), copied_out_(copied_out) {}

  std::unique_ptr<CapturedGraph> capture(const std::function<void()>& work) override;
  void replay(CapturedGraph& captured) override;
  bool is_capturing() const override { return capturing_ != nullptr; }
  std::uint64_t memory_version() const override { return memory_version_; }
  void host_call(const std::function<void()>& work, const std::function<void()>& later) override;
  void join_host_call() override;

  // Memory that graphs refer to was replaced.
  void invalidate() { ++memory_version_; }

 private:
  // Waits for the GPU's signal and returns its count. Throws Error when the GPU fails.
  std::uint32_t wait_for_gpu(const kernels::cuda::HostSignal& signal) const;

  Device device_;
  CudaStream& stream_;
  CudaEvent& copied_out_;
  CudaGraph* capturing_ = nullptr;     // null: not capturing
  kernels::cuda::HostSignal awaited_;  // of the host call not joined yet
  std::uint64_t memory_version_ = 0;
};

}  // namespace graft::ops::cuda
