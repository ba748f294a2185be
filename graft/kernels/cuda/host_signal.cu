#include "graft/kernels/cuda/host_signal.h"

#include "graft/kernels/cuda/launch.cuh"

namespace graft::kernels::cuda {
namespace {

// Grid: one thread each. The fences also order the writes of earlier kernels and copies.
__global__ void signal_host_kernel(HostSignal signal) {
  begin_kernel();
  volatile std::uint32_t* ready = signal.ready;
  const std::uint32_t next = *ready + 1;
  __threadfence_system();
  *ready = next;
}

__global__ void wait_host_kernel(HostSignal signal) {
  begin_kernel();
  const volatile std::uint32_t* done = signal.done;
  const std::uint32_t ready = *static_cast<const volatile std::uint32_t*>(signal.ready);
  while (*done != ready) {}
  __threadfence_system();
}

}  // namespace

void signal_host(const HostSignal& signal, Stream stream) {
  launch("signal_host", signal_host_kernel, {1, 1}, stream, signal);
}

void wait_host(const HostSignal& signal, Stream stream) {
  launch("wait_host", wait_host_kernel, {1, 1}, stream, signal);
}

}  // namespace graft::kernels::cuda
