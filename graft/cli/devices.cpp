// graft devices: lists the CPU and the GPUs of this machine.

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "graft/base/system/cpus.h"
#include "graft/base/text/json.h"
#include "graft/base/text/units.h"
#include "graft/cli/commands.h"
#include "graft/cli/counted.h"
#include "graft/kernels/cpu/table.h"
#include "graft/tensor/gpus.h"

namespace graft::cli {
namespace {

// {"cpu": {"threads", "numa_nodes", "isa"}, "gpus": [{"name", …}], "no_gpu": why}
void print_devices_json() {
  const std::vector<LogicalCpu> cpus = usable_cpus();
  const GpuList list = list_gpus();
  Json json = {{"cpu",
                {{"threads", one_per_core(cpus).size()},
                 {"numa_nodes", num_numa_nodes(cpus)},
                 {"isa", kernels::cpu::kernels().isa}}},
               {"gpus", Json::array()},
               {"no_gpu", list.gpus.empty() ? Json(list.unavailable) : Json()}};
  for (const cuda_abi::DeviceProperties& gpu : list.gpus) {
    json["gpus"].push_back({{"name", gpu.name},
                            {"compute_major", gpu.compute_major},
                            {"compute_minor", gpu.compute_minor},
                            {"multiprocessors", gpu.num_multiprocessors},
                            {"free_bytes", gpu.free_bytes},
                            {"total_bytes", gpu.total_bytes}});
  }
  fmt::print("{}\n", json.dump(2, ' ', false, Json::error_handler_t::replace));
}

void print_devices() {
  std::string levels;
  for (const kernels::cpu::KernelTable* table : kernels::cpu::runnable_kernels())
    levels.append(levels.empty() ? "" : ", ").append(table->isa);
  const std::vector<LogicalCpu> cpus = usable_cpus();
  const std::size_t nodes = num_numa_nodes(cpus);
  fmt::print("cpu     {}{}, instruction sets: {} (using {})\n",
             counted(static_cast<std::int64_t>(one_per_core(cpus).size()), "thread"),
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
  Command* command = app.add_subcommand("devices", "List the CPU and the GPUs of this machine");
  const auto json = std::make_shared<bool>(false);
  command->add_flag("--json", *json, "Print JSON");
  command->callback([json] { *json ? print_devices_json() : print_devices(); });
}

}  // namespace graft::cli
