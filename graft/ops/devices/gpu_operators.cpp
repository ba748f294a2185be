#include "graft/ops/devices/gpu_operators.h"

#include <functional>

#include "graft/base/error.h"
#include "graft/ops/devices/device_library.h"
#include "graft/ops/devices/shared_library.h"
#include "graft/tensor/gpus.h"

namespace graft::ops {
namespace {

// Calls `use` with the library of the GPUs, which stays loaded.
void with_cuda_library(const std::function<void(const DeviceLibrary&)>& use) {
  const std::filesystem::path path = cuda_library_path();
  if (path.empty())
    fail("GPUs need libgraft_cuda.so, which was not found in the folder of libgraft.so");
  SharedLibrary library(path);
  const auto* exported = static_cast<const DeviceLibrary*>(library.find("graft_device_library"));
  if (exported == nullptr)
    fail(path.string(), ": not a graft device library: the symbol graft_device_library is missing");
  library.expect_build(exported->version, exported->layout, internal_layout());
  library.keep_open();
  library.call([&] { use(*exported); });
}

}  // namespace

Registry operators_for(int num_gpus) {
  Registry registry = builtin_operators();
  if (num_gpus > 0)
    with_cuda_library([&](const DeviceLibrary& cuda) { cuda.add_operators(registry); });
  return registry;
}

GpuMeasurement measure_gpu(std::int32_t index) {
  GpuMeasurement measured;
  with_cuda_library([&](const DeviceLibrary& cuda) { measured = cuda.measure(index); });
  return measured;
}

}  // namespace graft::ops
