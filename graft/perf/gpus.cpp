#include "graft/perf/gpus.h"

#include <algorithm>
#include <array>
#include <string>

#include "graft/base/system/system.h"

namespace graft::perf {
namespace {

constexpr double kPcie3 = 12e9;  // bytes/s that copies from pinned memory reach over 16 lanes
constexpr double kPcie4 = 25e9;
constexpr double kPcie5 = 50e9;

struct GpuRow {
  std::string_view pattern;  // anywhere in the name
  double read_bytes_per_s;
  double flops;  // dense, 16-bit inputs, f32 accumulation
  double pcie_bytes_per_s;
};

// The first matching row wins, so specific names precede general ones.
constexpr std::array kGpus = {
    GpuRow{"B200", 8000e9, 2250e12, kPcie5},     GpuRow{"H200", 4800e9, 989e12, kPcie5},
    GpuRow{"H100 NVL", 3900e9, 835e12, kPcie5},  GpuRow{"H100 PCIe", 2000e9, 756e12, kPcie5},
    GpuRow{"H100", 3350e9, 989e12, kPcie5},      GpuRow{"A100-SXM4-80GB", 2039e9, 312e12, kPcie4},
    GpuRow{"A100 80GB", 1935e9, 312e12, kPcie4}, GpuRow{"A100", 1555e9, 312e12, kPcie4},
    GpuRow{"L40S", 864e9, 362e12, kPcie4},       GpuRow{"L40", 864e9, 181e12, kPcie4},
    GpuRow{"NVIDIA L4", 300e9, 121e12, kPcie4},  GpuRow{"RTX 6000 Ada", 960e9, 364e12, kPcie4},
    GpuRow{"RTX A6000", 768e9, 155e12, kPcie4},  GpuRow{"RTX 5090", 1792e9, 210e12, kPcie5},
    GpuRow{"RTX 4090", 1008e9, 165e12, kPcie4},  GpuRow{"RTX 3090", 936e9, 71e12, kPcie4},
    GpuRow{"V100", 900e9, 125e12, kPcie3},       GpuRow{"Tesla T4", 320e9, 65e12, kPcie3},
};

}  // namespace

GpuFigures assumed_gpu() {
  return {.name = "assumed",
          .vram_bytes = std::uint64_t{24} << 30U,
          .read_bytes_per_s = 900e9,
          .flops = 120e12,
          .pcie_bytes_per_s = kPcie4};
}

std::optional<GpuFigures> published_gpu(std::string_view name, std::uint64_t vram_bytes) {
  const auto* row = std::ranges::find_if(kGpus, [&](const GpuRow& candidate) {
    return name.find(candidate.pattern) != std::string_view::npos;
  });
  if (row == kGpus.end()) return std::nullopt;
  return GpuFigures{.name = std::string(name),
                    .vram_bytes = vram_bytes,
                    .read_bytes_per_s = row->read_bytes_per_s,
                    .flops = row->flops,
                    .pcie_bytes_per_s = row->pcie_bytes_per_s};
}

void set_found_gpus(MachineFigures& machine, const GpuList& found) {
  const bool is_measured =
      std::ranges::equal(machine.gpus, found.gpus, [](const auto& figures, const auto& gpu) {
        return figures.name == std::string_view(gpu.name);
      });
  machine.gpu_source.clear();
  if (found.gpus.empty()) return machine.gpus.clear();
  if (is_measured) {
    machine.gpu_source = "this machine's GPUs, measured";
    return;
  }
  machine.gpus.clear();
  bool is_published = true;
  for (const cuda_abi::DeviceProperties& gpu : found.gpus) {
    const std::optional<GpuFigures> published = published_gpu(gpu.name, gpu.total_bytes);
    is_published = is_published && published.has_value();
    machine.gpus.push_back(published.value_or(assumed_gpu()));
    machine.gpus.back().name = gpu.name;
    machine.gpus.back().vram_bytes = gpu.total_bytes;
  }
  machine.gpu_source =
      machine.gpus.front().name + (is_published ? ", published speeds" : ", speeds assumed");
}

void set_free_memory(MachineFigures& machine, const GpuList& found, std::uint64_t memory_limit) {
  for (std::size_t i = 0; i < std::min(machine.gpus.size(), found.gpus.size()); ++i)
    machine.gpus[i].vram_bytes = found.gpus[i].free_bytes;
  const std::uint64_t free = memory_limit != 0 ? memory_limit : available_memory();
  if (free != 0) machine.cpu.dram_bytes = std::min(machine.cpu.dram_bytes, free);
}

}  // namespace graft::perf
