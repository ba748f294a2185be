#include "graft/perf/named_machines.h"

#include <algorithm>
#include <array>

#include "graft/base/check.h"
#include "graft/base/text/str.h"
#include "graft/perf/gpus.h"

namespace graft::perf {
namespace {

constexpr double kReachedShare = 0.8;  // of the data sheet's memory bandwidth, by reading
constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;

constexpr std::array kMachines = {
    NamedMachine{"laptop", "8 cores, 2 channels of DDR5-5600, 32 GB", 8, 32, 89.6, "", 0, 0},
    NamedMachine{"desktop-ddr4", "8 cores, 2 channels of DDR4-3200, 64 GB, RTX 3090", 8, 64, 51.2,
                 "NVIDIA GeForce RTX 3090", 1, 24},
    NamedMachine{"desktop-ddr5", "16 cores, 2 channels of DDR5-5600, 96 GB, RTX 4090", 16, 96, 89.6,
                 "NVIDIA GeForce RTX 4090", 1, 24},
    NamedMachine{"workstation", "24 cores, 4 channels of DDR5-5200, 256 GB, RTX 5090", 24, 256,
                 166.4, "NVIDIA GeForce RTX 5090", 1, 32},
    NamedMachine{"xeon", "32 cores, 8 channels of DDR5-4800, 512 GB, RTX 4090", 32, 512, 307.2,
                 "NVIDIA GeForce RTX 4090", 1, 24},
    NamedMachine{"epyc", "64 cores, 12 channels of DDR5-4800, 768 GB, RTX 4090", 64, 768, 460.8,
                 "NVIDIA GeForce RTX 4090", 1, 24},
    NamedMachine{"epyc-cpu", "the same without a GPU", 64, 768, 460.8, "", 0, 0},
    NamedMachine{"a100-server", "64 cores, 8 channels of DDR4-3200, 1 TB, 8 A100 of 80 GB", 64,
                 1024, 204.8, "NVIDIA A100-SXM4-80GB", 8, 80},
    NamedMachine{"h100-server", "56 cores, 8 channels of DDR5-4800, 1 TB, 8 H100 of 80 GB", 56,
                 1024, 307.2, "NVIDIA H100 80GB HBM3", 8, 80},
};

}  // namespace

std::span<const NamedMachine> named_machines() {
  return kMachines;
}

std::optional<MachineFigures> machine_by_name(std::string_view name) {
  const auto* found = std::ranges::find(kMachines, name, &NamedMachine::name);
  if (found == kMachines.end()) return std::nullopt;
  MachineFigures machine;
  machine.name = found->name;
  assume_cpu(machine, found->memory_gb_per_s * 1e9 * kReachedShare, found->cores);
  machine.cpu.dram_bytes = static_cast<std::uint64_t>(found->dram_gib * kGiB);
  machine.cpu.call_seconds = assumed_machine().cpu.call_seconds;
  machine.cpu_source = str("assumed, ", found->summary);
  if (found->num_gpus == 0) return machine;
  const auto vram = static_cast<std::uint64_t>(found->vram_gib * kGiB);
  const std::optional<GpuFigures> gpu = published_gpu(found->gpu, vram);
  GRAFT_CHECK(gpu.has_value(), found->gpu, " has no published figures");
  machine.gpus.assign(static_cast<std::size_t>(found->num_gpus), *gpu);
  machine.gpu_source = str(found->gpu, ", published speeds");
  return machine;
}

}  // namespace graft::perf
