#include "graft/cli/doctor/gpu_table.h"

#include <algorithm>
#include <cstddef>

#include <fmt/format.h>

#include "graft/base/text/units.h"

namespace graft::cli {

std::string gpu_table(const std::vector<perf::GpuFigures>& gpus) {
  if (gpus.empty()) return "";
  std::size_t width = std::string_view("name").size();
  for (const perf::GpuFigures& gpu : gpus)
    width = std::max(width, gpu.name.size());
  std::string text =
      fmt::format("{:<10} {:<{}} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10}\n", "gpu", "name", width,
                  "memory", "read GB/s", "TFLOP/s", "launch us", "H2D GB/s", "D2H GB/s");
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    const perf::GpuFigures& gpu = gpus[i];
    text += fmt::format(
        "cuda:{:<5} {:<{}} {:>10} {:>10.1f} {:>10.1f} {:>10.2f} {:>10.1f} {:>10.1f}\n", i, gpu.name,
        width, bytes_text(gpu.vram_bytes), gpu.read_bytes_per_s / 1e9, gpu.flops / 1e12,
        gpu.launch_seconds * 1e6, gpu.pcie_bytes_per_s / 1e9, gpu.pcie_back_bytes_per_s / 1e9);
  }
  return text;
}

}  // namespace graft::cli
