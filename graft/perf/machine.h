// Performance data of a machine: measured by `graft machine`, or written by hand to plan for
// hardware you do not have. Stored as JSON; docs/machines.md documents the keys.

#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "graft/base/system/cgroup.h"
#include "graft/base/text/json.h"
#include "graft/tensor/dtype.h"

namespace graft::perf {

struct CpuFigures {
  int threads = 1;
  std::uint64_t dram_bytes = 0;
  double read_bytes_per_s = 0;  // all threads
  double flops = 0;             // f32, all threads
  double call_seconds = 0;      // fixed cost of an operator call: waking and joining the threads
};

struct GpuFigures {
  std::string name;
  std::uint64_t vram_bytes = 0;
  double read_bytes_per_s = 0;
  double flops = 0;                  // dense, 16-bit
  double pcie_bytes_per_s = 0;       // from pinned host memory to the GPU
  double pcie_back_bytes_per_s = 0;  // from the GPU to pinned host memory; 0: as pcie_bytes_per_s
  double launch_seconds = 0;         // one kernel in a CUDA graph of dependent kernels; 0: unknown
};

struct DiskFigures {
  double read_bytes_per_s = 0;  // several threads, without the page cache; 0: unknown
};

// What this build's linear operator reaches with weights of one type. The machine's limits are
// higher.
struct OperatorRate {
  double read_bytes_per_s = 0;  // weight bytes with one row: decode
  double flops = 0;             // with 64 rows: prefill
};

struct MachineFigures {
  std::string name;
  CpuFigures cpu;
  std::vector<GpuFigures> gpus;
  DiskFigures disk = {};                    // of the folder with the models
  std::map<DType, OperatorRate> cpu_rates;  // types without an entry use shares of `cpu`
  // Whose figures these are, for reports; not stored: "this machine's CPU, measured".
  std::string cpu_source = {};
  std::string gpu_source = {};  // empty without GPUs
};

// The read bandwidth of the disk: as measured, else that of a usual NVMe drive.
double disk_read_bytes_per_s(const MachineFigures& machine);

Json to_json(const MachineFigures& machine);
// Throws Error (subject: `where`) that names every unknown, missing and invalid key.
MachineFigures machine_from_json(const Json& json, const std::string& where);

// The file `graft machine` writes: $XDG_CONFIG_HOME/graft/machine.json, or under ~/.config;
// empty without HOME.
std::filesystem::path machine_file();

// This machine's threads and memory size with typical speeds, for when nothing was measured.
MachineFigures assumed_machine();

// The figures that `graft machine` saved, else the assumed ones. The memory is what this process
// may use now: a container may have another limit than at the time of the measurement.
MachineFigures this_machine();

// Replaces the CPU by another, unmeasured one. 0 keeps a value; the arithmetic follows from the
// threads. The measured rates are dropped: they are those of the replaced CPU.
void assume_cpu(MachineFigures& machine, double read_bytes_per_s, int threads);

// The smaller of the installed memory and the limit of the container.
std::uint64_t usable_memory(std::uint64_t installed, const CgroupLimits& limits);

}  // namespace graft::perf
