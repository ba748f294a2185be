// Wrappers of the CUDA runtime: devices, memory, streams, events and error checks.

#pragma once

#include <cstddef>
#include <cstdint>

#include <cuda_runtime.h>

#include "graft/tensor/device.h"
#include "graft/tensor/device_memory.h"

namespace graft::ops::cuda {

// Throws Error with `what` (the operation) and the CUDA error text.
void check_cuda(cudaError_t error, const char* what);

// The number of cuda:N devices. GRAFT_VIRTUAL_GPUS=N raises it to N: the extra devices share the
// physical GPUs, so that placements over several GPUs can be tested on one.
std::int32_t num_cuda_devices();
// The physical GPU behind cuda:index.
int physical_gpu(std::int32_t index);
// Selects the GPU for CUDA calls of this thread (cudaSetDevice).
void use_gpu(std::int32_t index);

// A copy after all work of cuda:index so far and before all later work. cudaMemcpy alone orders it
// with neither: the streams here do not wait for the default stream, and copies of ordinary host
// memory end after the call. Not for passes.
void copy_in_order(
    std::int32_t index, void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind);
// Sets memory of cuda:index to 0, likewise.
void clear_in_order(std::int32_t index, void* data, std::size_t bytes);

class CudaMemory final : public DeviceMemory {
 public:
  std::byte* allocate(std::int32_t index, std::size_t bytes) override;
  void free(std::int32_t index, std::byte* data, std::size_t bytes) noexcept override;
  std::uint64_t available(std::int32_t index) override;
  std::byte* allocate_staging(std::int32_t index, std::size_t bytes) override;
  void free_staging(std::int32_t index, std::byte* data, std::size_t bytes) noexcept override;
};

// A stream on GPU `index`.
class CudaStream {
 public:
  explicit CudaStream(std::int32_t index);
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;
  ~CudaStream();

  cudaStream_t get() const { return stream_; }
  void wait() const;  // until the stream is idle

 private:
  cudaStream_t stream_ = nullptr;
};

enum class EventKind : std::uint8_t { Untimed, Timed };

class CudaEvent {
 public:
  explicit CudaEvent(EventKind kind = EventKind::Untimed);
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;
  ~CudaEvent();

  void record(const CudaStream& stream);
  // For destructors: the next checked call reports an error.
  void record_unchecked(const CudaStream& stream) noexcept;
  void wait() const;  // returns at once when it was never recorded
  void wait_unchecked() const noexcept;
  bool is_done() const;  // whether wait() would return at once
  // The stream continues after the event; no effect when it was never recorded.
  void hold(const CudaStream& stream) const;
  // Seconds between two timed events; waits for both.
  static double seconds_between(const CudaEvent& begin, const CudaEvent& end);

 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace graft::ops::cuda
