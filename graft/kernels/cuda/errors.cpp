#include "graft/kernels/cuda/errors.h"

#include <algorithm>
#include <array>

#include "graft/base/text/str.h"

namespace graft::kernels::cuda {
namespace {

// The errors after which, by the CUDA manual, the process must be restarted.
constexpr std::array kSticky = {cudaErrorECCUncorrectable,
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

bool is_sticky(cudaError_t error) {
  return std::ranges::find(kSticky, error) != kSticky.end();
}

std::string error_text(cudaError_t error) {
  const char* text = cudaGetErrorString(error);
  if (!is_sticky(error)) return text;
  return str(text, "; the CUDA context is lost, restart the process");
}

}  // namespace graft::kernels::cuda
