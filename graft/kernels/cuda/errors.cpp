#include "graft/kernels/cuda/errors.h"

#include <algorithm>
#include <array>

#include "graft/base/text/str.h"

namespace graft::kernels::cuda {
namespace {

// Those after which CUDA's manual says that the process must be started again.
constexpr std::array kLasting = {cudaErrorECCUncorrectable,
                                 cudaErrorNvlinkUncorrectable,
                                 cudaErrorIllegalAddress,
                                 cudaErrorLaunchTimeout,
                                 cudaErrorContextIsDestroyed,
                                 cudaErrorAssert,
                                 cudaErrorHardwareStackError,
                                 cudaErrorIllegalInstruction,
                                 cudaErrorMisalignedAddress,
                                 cudaErrorInvalidAddressSpace,
                                 cudaErrorInvalidPc,
                                 cudaErrorLaunchFailure,
                                 cudaErrorUnknown};

}  // namespace

bool is_lasting(cudaError_t error) {
  return std::ranges::find(kLasting, error) != kLasting.end();
}

std::string error_text(cudaError_t error) {
  const char* words = cudaGetErrorString(error);
  if (!is_lasting(error)) return words;
  return str(words, "; this program can use the GPU no more, start it again");
}

}  // namespace graft::kernels::cuda
