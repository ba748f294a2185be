// graft devices: lists the CPU and the GPUs of this machine.

#include <cstdio>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "graft/base/system/cpus.h"
#include "graft/base/text/units.h"
#include "graft/cli/commands.h"
#include "graft/kernels/cpu/table.h"
#include "graft/tensor/gpus.h"

namespace graft::cli {
namespace {

void devices() {
  std::string levels;
  for (const kernels::cpu::KernelTable* table : kernels::cpu::runnable_kernels())
    levels.append(levels.empty() ? "" : ", ").append(table->isa);
  const std::vector<LogicalCpu> cpus = usable_cpus();
  const std::size_t nodes = num_numa_nodes(cpus);
  fmt::print("cpu     {} threads{}, instruction sets: {} (using {})\n", one_per_core(cpus).size(),
             nodes > 1 ? fmt::format(" on {} NUMA nodes", nodes) : "", levels,
             kernels::cpu::kernels().isa);
  const GpuList list = list_gpus();
  for (std::size_t i = 0; i < list.gpus.size(); ++i) {
    const cuda_abi::DeviceProperties& gpu = list.gpus[i];
    fmt::print("cuda:{}  {}, sm_{}{}, {} multiprocessors, {} of {} free\n", i, gpu.name,
               gpu.compute_major, gpu.compute_minor, gpu.num_multiprocessors,
               bytes_text(gpu.free_bytes), bytes_text(gpu.total_bytes));
  }
  if (list.gpus.empty()) fmt::print("cuda    none: {}\n", list.unavailable);
}

}  // namespace

void add_devices(Command& app) {
  app.add_subcommand("devices", "List the CPU and the GPUs of this machine")->callback(devices);
}

}  // namespace graft::cli
