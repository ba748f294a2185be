#include "graft/tensor/cuda_toolkit.h"

namespace graft {

int cuda_toolkit_version() {
  return GRAFT_CUDA_TOOLKIT_VERSION;
}

}  // namespace graft
