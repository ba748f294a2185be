// Where a stream meets the processor without help of the driver: two numbers in memory that both
// see. Passing a meeting takes microseconds less than a host function, and all of it can be
// captured into a graph.
//
//   GPU, in order with its other work      a thread of the processor
//   arrive()   ready += 1                  waits until `ready` changes, reads what it needs
//   await()    waits until done == ready   sets `done` to what `ready` is

#pragma once

#include <cstdint>

#include "graft/kernels/cuda/stream.h"

namespace graft::kernels::cuda {

// Both numbers are in pinned memory of the processor, on cache lines of their own, and begin at 0.
struct HostSignal {
  std::uint32_t* ready = nullptr;  // written by the GPU
  std::uint32_t* done = nullptr;   // written by the processor
};

// What was enqueued before is done, and its copies are there, when the processor sees it.
void arrive(const HostSignal& meeting, Stream stream);
// What is enqueued afterwards sees what the processor wrote before it set `done`.
void await(const HostSignal& meeting, Stream stream);

}  // namespace graft::kernels::cuda
