// Synchronizes a stream with a host thread through two counters in pinned host memory. Takes
// microseconds less than cudaLaunchHostFunc, and can be captured into a CUDA graph.
//
//   GPU, in stream order                        host thread
//   signal_host()   ready += 1                  polls until `ready` changes, reads its input
//   wait_host()     spins until done == ready   writes its output, then done = ready

#pragma once

#include <cstdint>

#include "graft/kernels/cuda/stream.h"

namespace graft::kernels::cuda {

// Both counters are in pinned host memory, on separate cache lines, and start at 0.
struct HostSignal {
  std::uint32_t* ready = nullptr;  // written by the GPU
  std::uint32_t* done = nullptr;   // written by the host
};

// When the host sees the new `ready`, all earlier work of the stream is complete and its copies are
// visible.
void signal_host(const HostSignal& signal, Stream stream);
// Later work of the stream sees what the host wrote before it set `done`.
void wait_host(const HostSignal& signal, Stream stream);

}  // namespace graft::kernels::cuda
