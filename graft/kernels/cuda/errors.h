// Texts of CUDA errors.

#pragma once

#include <string>

#include <cuda_runtime_api.h>

namespace graft::kernels::cuda {

// Whether the error is sticky: the CUDA context is lost and every later call of the process fails.
bool is_sticky(cudaError_t error);

// The CUDA error string, with the remedy when the error is sticky.
std::string error_text(cudaError_t error);

}  // namespace graft::kernels::cuda
