#include "graft/perf/measure/measure_gpus.h"

#include "graft/base/error.h"
#include "graft/base/text/str.h"

namespace graft::perf {

MeasuredGpus measure_gpus(const GpuList& list,
                          const std::function<ops::GpuMeasurement(std::int32_t index)>& measure) {
  MeasuredGpus result;
  for (const cuda_abi::DeviceProperties& gpu : list.gpus) {
    const std::size_t idx = result.gpus.size();
    try {
      const ops::GpuMeasurement measured = measure(static_cast<std::int32_t>(idx));
      result.gpus.push_back({.name = gpu.name,
                             .vram_bytes = gpu.total_bytes,
                             .read_bytes_per_s = measured.read_bytes_per_s,
                             .flops = measured.flops,
                             .pcie_bytes_per_s = measured.pcie_bytes_per_s,
                             .pcie_back_bytes_per_s = measured.pcie_back_bytes_per_s,
                             .launch_seconds = measured.launch_seconds});
    } catch (const Error& error) {
      // A list with a gap would give later GPUs the wrong index.
      return {.gpus = {}, .error = str("cuda:", idx, ": ", error.what())};
    }
  }
  return result;
}

}  // namespace graft::perf
