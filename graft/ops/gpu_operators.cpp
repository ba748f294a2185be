#include "graft/ops/gpu_operators.h"

#include "graft/base/error.h"
#include "graft/ops/device_library.h"
#include "graft/ops/shared_library.h"
#include "graft/tensor/gpus.h"

namespace graft::ops {
namespace {

void load_device_library(const std::filesystem::path& path, Registry& registry) {
  SharedLibrary library(path);
  const auto* exported = static_cast<const DeviceLibrary*>(library.find("graft_device_library"));
  if (exported == nullptr)
    fail(path.string(), ": not a graft device library: the symbol graft_device_library is missing");
  library.expect_build(exported->version, exported->layout, internal_layout());
  library.keep_open();
  library.call([&] { exported->add_operators(registry); });
}

}  // namespace

Registry operators_for(int num_gpus) {
  Registry registry = builtin_operators();
  if (num_gpus == 0) return registry;
  const std::filesystem::path library = cuda_library_path();
  if (library.empty())
    fail("GPUs need libgraft_cuda.so, which was not found in the folder of libgraft.so");
  load_device_library(library, registry);
  return registry;
}

}  // namespace graft::ops
