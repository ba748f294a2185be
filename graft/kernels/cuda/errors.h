// What is said of an error of CUDA.

#pragma once

#include <string>

#include <cuda_runtime_api.h>

namespace graft::kernels::cuda {

// Whether the program has lost the GPU with it: whatever is asked later fails too.
bool is_lasting(cudaError_t error);

// The driver's words, and what to do where that is known.
std::string error_text(cudaError_t error);

}  // namespace graft::kernels::cuda
