// GPUs through the CUDA runtime: which there are, their memory, and errors in words.

#pragma once

#include <cstddef>
#include <cstdint>

#include <cuda_runtime.h>

#include "graft/tensor/device.h"
#include "graft/tensor/device_memory.h"

namespace graft::ops::cuda {

// Throws Error with what was being done and what the driver says of it.
void check_cuda(cudaError_t error, const char* what);

// How many devices rules may name. With GRAFT_VIRTUAL_GPUS=N they are N, however many there are:
// those of a number above share the GPUs, so that a placement over several can be tried on one.
std::int32_t num_cuda_devices();
// The GPU behind cuda:index.
int physical_gpu(std::int32_t index);
// Makes it the one that calls of this thread mean.
void use_gpu(std::int32_t index);

class CudaMemory final : public DeviceMemory {
 public:
  std::byte* take(std::int32_t index, std::size_t bytes) override;
  void free(std::int32_t index, std::byte* data, std::size_t bytes) noexcept override;
  std::uint64_t available(std::int32_t index) override;
  std::byte* allocate_staging(std::int32_t index, std::size_t bytes) override;
  void free_staging(std::int32_t index, std::byte* data, std::size_t bytes) noexcept override;
};

// Destroyed with its owner, on the GPU it was made on.
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
  // For destructors: an error shows at the next checked call.
  void record_unchecked(const CudaStream& stream) noexcept;
  void wait() const;  // returns at once when it was never recorded
  // Of two timed events; waits for both.
  static double seconds_between(const CudaEvent& begin, const CudaEvent& end);

 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace graft::ops::cuda
