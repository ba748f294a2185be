#include "graft/perf/named_machines.h"

#include <optional>

#include <gtest/gtest.h>

namespace graft::perf {
namespace {

TEST(NamedMachines, AllHaveFiguresOfTheirParts) {
  for (const NamedMachine& named : named_machines()) {
    const std::optional<MachineFigures> machine = machine_by_name(named.name);
    ASSERT_TRUE(machine.has_value()) << named.name;
    EXPECT_EQ(machine->cpu.threads, named.cores);
    EXPECT_NEAR(machine->cpu.read_bytes_per_s, named.memory_gb_per_s * 0.8e9, 1e6) << named.name;
    EXPECT_GT(machine->cpu.flops, 0) << named.name;
    EXPECT_EQ(machine->gpus.size(), static_cast<std::size_t>(named.num_gpus));
    for (const GpuFigures& gpu : machine->gpus)
      EXPECT_GT(gpu.read_bytes_per_s, 3e11) << named.name;
    EXPECT_FALSE(machine->cpu_source.empty());
    EXPECT_EQ(machine->gpu_source.empty(), machine->gpus.empty());
  }
  EXPECT_FALSE(machine_by_name("toaster").has_value());
}

}  // namespace
}  // namespace graft::perf
