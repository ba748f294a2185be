// The interface that libgraft_cuda.so exports: the operators of a device, compiled with the
// internal headers of the libgraft.so beside it. Plugins of users export a plugin::Plugin instead
// (graft/plugin.h).

#pragma once

#include <cstddef>
#include <cstdint>

#include "graft/ops/devices/gpu_measurement.h"
#include "graft/ops/registry.h"
#include "graft/version.h"

namespace graft::ops {

// A hash of the layout of the types that both libraries share; differs between incompatible builds.
constexpr std::uint32_t internal_layout() {
  std::size_t layout = 0;
  for (const std::size_t bytes :
       {sizeof(OperatorInfo), sizeof(Kwarg), sizeof(BuildContext), sizeof(Params), sizeof(Weight),
        sizeof(Pass), sizeof(Batch), sizeof(TensorView), sizeof(Registry), sizeof(GpuMeasurement)})
    layout = layout * 31 + bytes;
  return static_cast<std::uint32_t>(layout);
}

struct DeviceLibrary {
  const char* version = GRAFT_VERSION;  // stays the first member in every version
  std::uint32_t layout = internal_layout();
  // Called once for every registry.
  void (*add_operators)(Registry& registry) = nullptr;
  // Measures device `index`, for `graft machine`. Throws Error.
  GpuMeasurement (*measure)(std::int32_t index) = nullptr;
};

}  // namespace graft::ops

extern "C" {
// NOLINTNEXTLINE(readability-identifier-naming): a C symbol
[[gnu::visibility("default")]] extern const graft::ops::DeviceLibrary graft_device_library;
}
