#include "graft/kernels/cuda/host_signal.h"

#include "graft/kernels/cuda/launch.cuh"

namespace graft::kernels::cuda {
namespace {

// One thread each. The fences order what other kernels and copies of the stream wrote, too.
__global__ void arrive_kernel(HostSignal meeting) {
  volatile std::uint32_t* ready = meeting.ready;
  const std::uint32_t next = *ready + 1;
  __threadfence_system();
  *ready = next;
}

__global__ void await_kernel(HostSignal meeting) {
  const volatile std::uint32_t* done = meeting.done;
  const std::uint32_t ready = *static_cast<const volatile std::uint32_t*>(meeting.ready);
  while (*done != ready) {}
  __threadfence_system();
}

}  // namespace

void arrive(const HostSignal& meeting, Stream stream) {
  launch("arrive", arrive_kernel, {1, 1}, stream, meeting);
}

void await(const HostSignal& meeting, Stream stream) {
  launch("await", await_kernel, {1, 1}, stream, meeting);
}

}  // namespace graft::kernels::cuda
