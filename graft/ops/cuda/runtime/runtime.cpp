#include "graft/ops/cuda/runtime/runtime.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <string_view>

#include "graft/base/error.h"
#include "graft/kernels/cuda/errors.h"

namespace graft::ops::cuda {
namespace {

int num_gpus() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

int num_virtual_gpus() {
  const char* text = std::getenv("GRAFT_VIRTUAL_GPUS");
  if (text == nullptr) return 0;
  const std::string_view word = text;
  int count = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), count);
  if (error != std::errc() || end != word.data() + word.size() || count < 1 || count > 64)
    fail("GRAFT_VIRTUAL_GPUS is '", word, "', expected an integer from 1 to 64");
  return count;
}

}  // namespace

void check_cuda(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  // Clears a non-sticky error, so that the next call does not report it again.
  cudaGetLastError();
  fail("CUDA: ", what, ": ", kernels::cuda::error_text(error));
}

std::int32_t num_cuda_devices() {
  static const std::int32_t count = [] {
    const int real = num_gpus();
    return real == 0 ? 0 : std::max(real, num_virtual_gpus());
  }();
  return count;
}

int physical_gpu(std::int32_t index) {
  static const int real = std::max(num_gpus(), 1);
  return index % real;
}

void use_gpu(std::int32_t index) {
  check_cuda(cudaSetDevice(physical_gpu(index)), "selecting the GPU");
}

void copy_in_order(
    std::int32_t index, void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  use_gpu(index);
  check_cuda(cudaDeviceSynchronize(), "waiting for the GPU");
  check_cuda(cudaMemcpy(to, from, bytes, kind), "copying");
  check_cuda(cudaDeviceSynchronize(), "copying");
}

void clear_in_order(std::int32_t index, void* data, std::size_t bytes) {
  use_gpu(index);
  check_cuda(cudaDeviceSynchronize(), "waiting for the GPU");
  check_cuda(cudaMemset(data, 0, bytes), "clearing memory");
  check_cuda(cudaDeviceSynchronize(), "clearing memory");
}

std::byte* CudaMemory::allocate(std::int32_t index, std::size_t bytes) {
  use_gpu(index);
  void* data = nullptr;
  const cudaError_t error = cudaMalloc(&data, bytes);
  if (error == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    return nullptr;
  }
  check_cuda(error, "allocating memory");
  return static_cast<std::byte*>(data);
}

void CudaMemory::free(std::int32_t index, std::byte* data, std::size_t /*bytes*/) noexcept {
  cudaSetDevice(physical_gpu(index));
  cudaFree(data);
}

std::uint64_t CudaMemory::available(std::int32_t index) {
  use_gpu(index);
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  check_cuda(cudaMemGetInfo(&free_bytes, &total_bytes), "querying free memory");
  return free_bytes;
}

std::byte* CudaMemory::allocate_staging(std::int32_t index, std::size_t bytes) {
  use_gpu(index);
  void* data = nullptr;
  const cudaError_t error = cudaMallocHost(&data, bytes);
  if (error == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    return nullptr;
  }
  check_cuda(error, "allocating pinned memory");
  return static_cast<std::byte*>(data);
}

void CudaMemory::free_staging(std::int32_t /*index*/,
                              std::byte* data,
                              std::size_t /*bytes*/) noexcept {
  cudaFreeHost(data);
}

CudaStream::CudaStream(std::int32_t index) {
  use_gpu(index);
  check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "creating a stream");
}

CudaStream::~CudaStream() {
  cudaStreamDestroy(stream_);
}

void CudaStream::wait() const {
  check_cuda(cudaStreamSynchronize(stream_), "waiting for the GPU");
}

CudaEvent::CudaEvent(EventKind kind) {
  const unsigned flags = kind == EventKind::Timed ? cudaEventDefault : cudaEventDisableTiming;
  check_cuda(cudaEventCreateWithFlags(&event_, flags), "creating an event");
}

CudaEvent::~CudaEvent() {
  cudaEventDestroy(event_);
}

void CudaEvent::record(const CudaStream& stream) {
  check_cuda(cudaEventRecord(event_, stream.get()), "recording an event");
}

void CudaEvent::record_unchecked(const CudaStream& stream) noexcept {
  cudaEventRecord(event_, stream.get());
}

void CudaEvent::hold(const CudaStream& stream) const {
  check_cuda(cudaStreamWaitEvent(stream.get(), event_, 0), "waiting for an event");
}

double CudaEvent::seconds_between(const CudaEvent& begin, const CudaEvent& end) {
  begin.wait();
  end.wait();
  float milliseconds = 0;
  check_cuda(cudaEventElapsedTime(&milliseconds, begin.event_, end.event_), "timing the GPU");
  return 1e-3 * static_cast<double>(milliseconds);
}

void CudaEvent::wait() const {
  check_cuda(cudaEventSynchronize(event_), "waiting for the GPU");
}

void CudaEvent::wait_unchecked() const noexcept {
  cudaEventSynchronize(event_);
}

bool CudaEvent::is_done() const {
  const cudaError_t error = cudaEventQuery(event_);
  if (error == cudaErrorNotReady) return false;
  check_cuda(error, "waiting for the GPU");
  return true;
}

}  // namespace graft::ops::cuda
