#include "graft/ops/gpu_operators.h"

#include "graft/base/error.h"
#include "graft/ops/plugin.h"
#include "graft/tensor/gpus.h"

namespace graft::ops {

Registry operators_for(int num_gpus) {
  Registry registry = builtin_operators();
  if (num_gpus == 0) return registry;
  const std::filesystem::path library = gpu_library();
  if (library.empty())
    fail("GPUs need libgraft_cuda.so, which was not found in the folder of libgraft.so");
  load_plugin(library, registry);
  return registry;
}

}  // namespace graft::ops
